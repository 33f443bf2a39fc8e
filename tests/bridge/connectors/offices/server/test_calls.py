"""Calls on their way: each is answered once, whatever becomes of either side."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.connectors.offices.protocol.errors import computer_not_found
from bridge.connectors.offices.protocol.events import CANCELLED, CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.server.calls import Answered, Forget, Relaying
from tests.bridge.connectors.offices.clients import Written

BOSS = Member("a1", AGENT, "boss", "a")
HANDS = Member("c1", COMPUTER, "hands", "a")


@dataclass
class Wire:
    """What would be on its way; the test answers."""

    asked: list[tuple[str, Any, str, Answered]] = field(default_factory=list)
    told: list[tuple[str, Any, str]] = field(default_factory=list)

    forgotten: int = 0

    async def bring(self, relay: Relay, answered: Answered) -> Forget:
        self.asked.append((relay.event.name, relay.said, relay.target.sid, answered))
        return self._forget

    async def stop_asking(self, relay: Relay) -> None:
        said = {"agent": relay.said["agent"], "req_id": relay.req_id}
        self.told.append((CANCELLED, said, relay.target.sid))

    def _forget(self) -> None:
        self.forgotten += 1


def relaying_on(wire: Wire, written: Written | None = None) -> Relaying:
    written = written or Written()
    return Relaying(wire, written, written)


def call(req_id: str = "1", *, event: str = TOOL_CALL, deadline: float = 60.0) -> Relay:
    said = {"agent": "x", "req_id": req_id, "computer": "hands", "timeout": 5}
    return Relay(CLIENT_EVENTS[event], BOSS, HANDS, said, deadline)


async def begun(relaying: Relaying, wire: Wire, relay: Relay) -> "asyncio.Task[Any]":
    before = len(wire.asked)
    task = asyncio.create_task(relaying.relay(relay))
    while len(wire.asked) == before:
        await asyncio.sleep(0)
    return task


async def test_an_answer_is_given_once_and_nothing_is_kept() -> None:
    """A second one, or one that comes too late, counts for nothing."""
    wire = Wire()
    relaying = relaying_on(wire)
    task = await begun(relaying, wire, call())
    assert relaying.in_flight("a1") == 1
    [(event, said, sid, answered)] = wire.asked
    assert (event, said["req_id"], sid) == (TOOL_CALL, "1", "c1")
    answered({"n": 1})
    answered({"n": 2})
    assert await task == {"n": 1}
    await relaying.gone("c1")
    assert (relaying.in_flight("a1"), relaying._of_target, relaying._by_id) == (0, {}, {})
    assert not await relaying.cancel("a1", "1")


async def test_a_getter_that_is_late_is_an_error_and_nothing_is_cancelled() -> None:
    wire = Wire()
    answer = await relaying_on(wire).relay(call(event="client:get_tools", deadline=0.01))
    assert answer["code"] == 408
    assert wire.told == []


async def test_a_computer_that_goes_answers_all_its_calls() -> None:
    """With the bytes of one that was never there."""
    wire = Wire()
    relaying = relaying_on(wire)
    tasks = [await begun(relaying, wire, call(f"{n}")) for n in range(3)]
    await relaying.gone("c1")
    assert await asyncio.gather(*tasks) == [computer_not_found("hands")] * 3
    assert wire.told == []


async def test_who_stops_waiting_does_not_stop_the_call() -> None:
    """The other one that asked the same still gets its result."""
    wire = Wire()
    relaying = relaying_on(wire)
    first = await begun(relaying, wire, call())
    second = asyncio.create_task(relaying.relay(call()))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    wire.asked[0][3]({"n": 1})
    assert await second == {"n": 1}
    assert len(wire.asked) == 1


async def test_a_caller_that_goes_has_its_tool_calls_stopped() -> None:
    """As the Computer knows them; what only looks is left alone."""
    wire = Wire()
    relaying = relaying_on(wire)
    tasks = [
        await begun(relaying, wire, call("tool")),
        await begun(relaying, wire, call("look", event="client:get_tools")),
    ]
    await relaying.gone("a1")
    assert wire.told == [(CANCELLED, {"agent": "x", "req_id": "tool"}, "c1")]
    await asyncio.gather(*tasks)


async def test_a_call_that_is_taken_back_is_not_one_to_nobody() -> None:
    """What is written down of it says so: its Computer is there."""
    wire = Wire()
    relaying = relaying_on(wire)
    task = await begun(relaying, wire, call())
    await relaying.gone("a1")
    answer = await task
    assert (answer["isError"], answer["meta"]) == (True, {"a2c_cancelled": True})


async def test_a_call_is_written_down_before_it_is_made() -> None:
    """And its answer before anybody has it; what only looks is looked at."""
    wire, written = Wire(), Written()
    relaying = Relaying(wire, written, written)
    task = await begun(relaying, wire, call())
    assert written.happened == [("called", "1")]
    wire.asked[0][3]({"n": 1})
    await task
    assert written.happened == [("called", "1"), ("answered", "1")]
    task = await begun(relaying, wire, call(event="client:get_tools"))
    wire.asked[1][3]({"tools": []})
    await task
    assert written.happened[2:] == [("looked", "hands")]


async def test_what_cannot_be_written_down_is_not_called() -> None:
    """The Computer hears nothing of it, and nothing is kept."""
    wire = Wire()
    relaying = relaying_on(wire, Written(fails=OSError("full")))
    with pytest.raises(OSError, match="full"):
        await relaying.relay(call())
    await asyncio.sleep(0)
    assert (wire.asked, relaying.in_flight("a1")) == ([], 0)
