"""Direct calls through a server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.protocol.events import TOOL_CALL
from tests.bridge.connectors.offices.clients import Running, offices_on

DONE = {"content": [{"type": "text", "text": "3"}], "isError": False}
OPERATOR = "operator@here.test"


@pytest.fixture
async def office() -> AsyncIterator[Running]:
    async with offices_on(most_calls_in_flight=2) as running:
        yield running


def calls(running: Running) -> DirectCalls:
    return DirectCalls(running.server, lambda office_id, name: ("known",) if name == "hands" else None)


def call(running: Running, computer: str = "hands", seconds: int = 5, **more: Any) -> "asyncio.Task[Any]":
    made = calls(running).call("a", computer, "add", {"a": 1}, seconds=seconds, by=OPERATOR, **more)
    return asyncio.create_task(made)


async def test_a_direct_call_is_recorded_like_any_other(office: Running) -> None:
    """The call before the Computer receives it, the answer before the requester receives that."""
    computer = await office.computer()
    computer.answers[TOOL_CALL] = DONE
    result = await call(office)
    payload = await computer.wait_for(TOOL_CALL)
    req_id = payload.pop("req_id")
    assert payload == {
        "agent": OPERATOR, "computer": "hands", "tool_name": "add", "params": {"a": 1}, "timeout": 5,
    }  # fmt: skip
    assert (result.answer, result.call.call_id) == (DONE, req_id)
    assert office.records is not None
    assert office.records.entries[1:] == [("called", req_id), ("answered", req_id)]


async def test_call_ids_are_unique_unless_given(office: Running) -> None:
    """Calls with the same id at the same time are one call."""
    computer = await office.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    calling = [call(office, call_id="mine") for _ in range(2)]
    assert (await computer.wait_for(TOOL_CALL))["req_id"] == "mine"
    answer.set_result(DONE)
    assert [called.answer for called in await asyncio.gather(*calling)] == [DONE, DONE]
    assert not any(event == TOOL_CALL for event, _ in await computer.unexpected())
    first, second = await call(office), await call(office)
    assert first.call.call_id != second.call.call_id


async def test_an_impossible_call_is_answered(office: Running) -> None:
    """No Computer, a member that is none, or too many calls."""
    await office.agent()
    assert (await call(office)).answer["code"] == 404
    assert (await call(office, "boss")).answer["code"] == 404
    computer = await office.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    running = [call(office), call(office)]
    for _ in running:
        await computer.wait_for(TOOL_CALL)
    assert (await call(office)).answer["code"] == 429
    answer.set_result(DONE)
    await asyncio.gather(*running)


async def test_a_cancelled_coroutine_cancels_its_call(office: Running) -> None:
    """The Computer is notified."""
    computer = await office.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = call(office)
    req_id = (await computer.wait_for(TOOL_CALL))["req_id"]
    calling.cancel()
    assert await computer.wait_for("notify:tool_call_cancel") == {"agent": OPERATOR, "req_id": req_id}


async def test_timeouts_and_disconnected_computers_are_answered(
    office: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.connectors.offices.calls.direct_call.SLACK", -0.8)
    computer = await office.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    late = await call(office, seconds=1)
    assert late.answer["meta"] == {"a2c_timeout": True}
    await computer.wait_for("notify:tool_call_cancel")
    calling = call(office)
    await computer.wait_for(TOOL_CALL)
    await computer.close()
    assert (await calling).answer["code"] == 404


async def test_the_computers_of_an_office_are_known(office: Running) -> None:
    """And why one cannot be called. Only some requesters may learn the names of other offices."""
    await office.computer()
    await office.computer("eyes", "b")
    made = calls(office)
    assert made.computers("a") == ["hands"]
    assert made.why_not("a", "hands") is None
    assert made.why_not("a", "hnds") == "There is no Computer hnds in the office a. Did you mean hands? There is hands."
    assert made.why_not("bb", "eyes") == "The office bb has no members."
    assert made.why_not("bb", "eyes", of_all=True) == "The office bb has no members. Did you mean b?"


async def test_computers_are_queried_for_their_tools(office: Running) -> None:
    """The answers are recorded."""
    computer = await office.computer()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "x"}
    assert await calls(office).tools("a", OPERATOR) == {"hands": ("known",)}
    assert (await computer.wait_for("client:get_tools"))["agent"] == OPERATOR
    assert office.records is not None
    assert office.records.entries[-1] == ("tools", "hands")
    assert await calls(office).tools("b", OPERATOR) == {}
