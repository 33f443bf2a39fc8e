"""Calls by who is no Agent of the office."""

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


async def test_a_call_is_one_like_any_other(office: Running) -> None:
    """Written down before the Computer is asked, and its answer before the caller has it."""
    computer = await office.computer()
    computer.answers[TOOL_CALL] = DONE
    called = await call(office)
    said = await computer.until(TOOL_CALL)
    req_id = said.pop("req_id")
    assert said == {
        "agent": OPERATOR, "computer": "hands", "tool_name": "add", "params": {"a": 1}, "timeout": 5,
    }  # fmt: skip
    assert (called.answer, called.call.call_id) == (DONE, req_id)
    assert office.written is not None
    assert office.written.happened[1:] == [("called", req_id), ("answered", req_id)]


async def test_ids_are_its_own(office: Running) -> None:
    """Or the one that is given: with that it is one call as long as it is under way."""
    computer = await office.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    calling = [call(office, call_id="mine") for _ in range(2)]
    assert (await computer.until(TOOL_CALL))["req_id"] == "mine"
    answer.set_result(DONE)
    assert [called.answer for called in await asyncio.gather(*calling)] == [DONE, DONE]
    assert not any(event == TOOL_CALL for event, _ in await computer.quiet())
    first, second = await call(office), await call(office)
    assert first.call.call_id != second.call.call_id


async def test_what_cannot_be_called_is_answered(office: Running) -> None:
    """Nobody is there; somebody is, and is none; there is too much of it."""
    await office.agent()
    assert (await call(office)).answer["code"] == 404
    assert (await call(office, "boss")).answer["code"] == 404
    computer = await office.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    under_way = [call(office), call(office)]
    for _ in under_way:
        await computer.until(TOOL_CALL)
    assert (await call(office)).answer["code"] == 429
    answer.set_result(DONE)
    await asyncio.gather(*under_way)


async def test_whoever_goes_takes_it_back(office: Running) -> None:
    """The Computer is told to stop."""
    computer = await office.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = call(office)
    req_id = (await computer.until(TOOL_CALL))["req_id"]
    calling.cancel()
    assert await computer.until("notify:tool_call_cancel") == {"agent": OPERATOR, "req_id": req_id}


async def test_a_computer_that_goes_or_is_late_is_answered_for(
    office: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.connectors.offices.calls.direct_call.SLACK", -0.8)
    computer = await office.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    late = await call(office, seconds=1)
    assert late.answer["meta"] == {"a2c_timeout": True}
    await computer.until("notify:tool_call_cancel")
    calling = call(office)
    await computer.until(TOOL_CALL)
    await computer.close()
    assert (await calling).answer["code"] == 404


async def test_who_is_there_is_known(office: Running) -> None:
    """And why somebody is not; who may know of other offices is told of those."""
    await office.computer()
    await office.computer("eyes", "b")
    made = calls(office)
    assert made.computers("a") == ["hands"]
    assert made.why_not("a", "hands") is None
    assert (
        made.why_not("a", "hnds")
        == "There is no Computer hnds in the office a. Did you mean hands? There is hands."
    )
    assert made.why_not("bb", "eyes") == "Nobody is in the office bb."
    assert made.why_not("bb", "eyes", of_all=True) == "Nobody is in the office bb. Did you mean b?"


async def test_computers_are_asked_what_they_can(office: Running) -> None:
    """What they say is noted where all else is."""
    computer = await office.computer()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "x"}
    assert await calls(office).tools("a", OPERATOR) == {"hands": ("known",)}
    assert (await computer.until("client:get_tools"))["agent"] == OPERATOR
    assert office.written is not None
    assert office.written.happened[-1] == ("looked", "hands")
    assert await calls(office).tools("b", OPERATOR) == {}
