"""The relay answers each request exactly once, whatever happens to its two sides."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.connectors.offices.protocol.errors import computer_not_found
from bridge.connectors.offices.protocol.events import CANCELLED, CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.server.calls import AnswerCallback, CallRelay, StopWaiting
from tests.bridge.connectors.offices.clients import FakeRecords

BOSS = Member("a1", AGENT, "boss", "a")
HANDS = Member("c1", COMPUTER, "hands", "a")


@dataclass
class FakeTransport:
    """Collects what is sent; the test answers."""

    requests: list[tuple[str, Any, str, AnswerCallback]] = field(default_factory=list)
    cancels: list[tuple[str, Any, str]] = field(default_factory=list)

    released: int = 0

    async def send_request(self, request: RelayRequest, on_answer: AnswerCallback) -> StopWaiting:
        self.requests.append((request.event.name, request.payload, request.target.sid, on_answer))
        return self._release

    async def send_cancel(self, request: RelayRequest) -> None:
        payload = {"agent": request.payload["agent"], "req_id": request.req_id}
        self.cancels.append((CANCELLED, payload, request.target.sid))

    def _release(self) -> None:
        self.released += 1


def relay_on(transport: FakeTransport, records: FakeRecords | None = None) -> CallRelay:
    records = records or FakeRecords()
    return CallRelay(transport, records, records)


def call(req_id: str = "1", *, event: str = TOOL_CALL, deadline: float = 60.0) -> RelayRequest:
    payload = {"agent": "x", "req_id": req_id, "computer": "hands", "timeout": 5}
    return RelayRequest(CLIENT_EVENTS[event], BOSS, HANDS, payload, deadline)


async def sent(relay: CallRelay, transport: FakeTransport, request: RelayRequest) -> "asyncio.Task[Any]":
    before = len(transport.requests)
    task = asyncio.create_task(relay.relay(request))
    while len(transport.requests) == before:
        await asyncio.sleep(0)
    return task


async def test_only_the_first_answer_counts() -> None:
    """A second or late answer is ignored, and nothing of the request is kept."""
    transport = FakeTransport()
    relay = relay_on(transport)
    task = await sent(relay, transport, call())
    assert relay.in_flight("a1") == 1
    [(event, payload, sid, on_answer)] = transport.requests
    assert (event, payload["req_id"], sid) == (TOOL_CALL, "1", "c1")
    on_answer({"n": 1})
    on_answer({"n": 2})
    assert await task == {"n": 1}
    await relay.handle_left("c1")
    assert (relay.in_flight("a1"), relay._by_target, relay._by_req_id) == (0, {}, {})
    assert not await relay.cancel("a1", "1")


async def test_a_getter_that_times_out_is_not_cancelled() -> None:
    transport = FakeTransport()
    answer = await relay_on(transport).relay(call(event="client:get_tools", deadline=0.01))
    assert answer["code"] == 408
    assert transport.cancels == []


async def test_requests_to_a_computer_that_leaves_are_answered() -> None:
    """With the same bytes as for an unknown Computer."""
    transport = FakeTransport()
    relay = relay_on(transport)
    tasks = [await sent(relay, transport, call(f"{n}")) for n in range(3)]
    await relay.handle_left("c1")
    assert await asyncio.gather(*tasks) == [computer_not_found("hands")] * 3
    assert transport.cancels == []


async def test_cancelling_one_waiter_does_not_end_the_call() -> None:
    """A second request with the same `req_id` still receives the result."""
    transport = FakeTransport()
    relay = relay_on(transport)
    first = await sent(relay, transport, call())
    second = asyncio.create_task(relay.relay(call()))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    transport.requests[0][3]({"n": 1})
    assert await second == {"n": 1}
    assert len(transport.requests) == 1


async def test_tool_calls_of_a_caller_that_leaves_are_cancelled() -> None:
    """With the `agent` and `req_id` that the Computer knows. Other requests need no cancel."""
    transport = FakeTransport()
    relay = relay_on(transport)
    tasks = [
        await sent(relay, transport, call("tool")),
        await sent(relay, transport, call("look", event="client:get_tools")),
    ]
    await relay.handle_left("a1")
    assert transport.cancels == [(CANCELLED, {"agent": "x", "req_id": "tool"}, "c1")]
    await asyncio.gather(*tasks)


async def test_a_call_of_a_caller_that_leaves_is_answered_as_cancelled() -> None:
    """Not as a call of an unknown Computer: that is what the log records."""
    transport = FakeTransport()
    relay = relay_on(transport)
    task = await sent(relay, transport, call())
    await relay.handle_left("a1")
    answer = await task
    assert (answer["isError"], answer["meta"]) == (True, {"a2c_cancelled": True})


async def test_a_call_is_recorded_before_it_is_sent() -> None:
    """And its answer before the caller receives it. Other requests can only change the tool list."""
    transport, records = FakeTransport(), FakeRecords()
    relay = CallRelay(transport, records, records)
    task = await sent(relay, transport, call())
    assert records.entries == [("called", "1")]
    transport.requests[0][3]({"n": 1})
    await task
    assert records.entries == [("called", "1"), ("answered", "1")]
    task = await sent(relay, transport, call(event="client:get_tools"))
    transport.requests[1][3]({"tools": []})
    await task
    assert records.entries[2:] == [("tools", "hands")]


async def test_a_call_that_cannot_be_recorded_is_not_sent() -> None:
    """Nothing of it is kept."""
    transport = FakeTransport()
    relay = relay_on(transport, FakeRecords(error=OSError("full")))
    with pytest.raises(OSError, match="full"):
        await relay.relay(call())
    await asyncio.sleep(0)
    assert (transport.requests, relay.in_flight("a1")) == ([], 0)
