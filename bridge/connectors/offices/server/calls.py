"""Relays requests from Agents to Computers and answers each exactly once, even if one side disconnects.

The transport reports only answers. Timeouts and disconnected Computers are detected here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.protocol.errors import (
    TIMEOUT,
    Ack,
    cancelled,
    computer_not_found,
    event_not_supported,
    flat_error,
    timed_out,
)
from bridge.connectors.offices.protocol.relay import RelayRequest

if TYPE_CHECKING:
    from bridge.connectors.offices.calls.approvals import CallApprovals
    from bridge.connectors.offices.rooms.call_log import OfficeRecords
    from bridge.connectors.offices.server.server import SmcpServer


AnswerCallback = Callable[..., None]
StopWaiting = Callable[[], None]
CANCELLED: Final = "cancelled"
"""The outcome of a request that was cancelled before it was sent to its Computer."""
_DISCONNECTED: Final = object()
_TIMED_OUT: Final = object()


@dataclass(eq=False, slots=True)
class _PendingRequest:
    request: RelayRequest
    outcome: "asyncio.Future[Any]"
    answer: "asyncio.Task[Ack] | None" = field(default=None)
    # A request that has not been sent needs no cancel notification.
    is_sent: bool = False


class CallRelay:
    """The requests in flight, by caller and by target."""

    def __init__(self, transport: "SmcpServer", records: "OfficeRecords", approvals: "CallApprovals") -> None:
        self._transport = transport
        self._records = records
        self._approvals = approvals
        self._by_caller: dict[str, set[_PendingRequest]] = {}
        self._by_target: dict[str, set[_PendingRequest]] = {}
        self._by_req_id: dict[tuple[str, str], _PendingRequest] = {}
        self._by_call_id: dict[str, _PendingRequest] = {}

    def in_flight(self, sid: str) -> int:
        return len(self._by_caller.get(sid, ()))

    async def relay(self, request: RelayRequest) -> Ack:
        """Return the answer for the caller. "Repeated `req_id` in flight: sent once; both get the one
        result." """
        key = request.caller.sid, request.req_id
        pending = self._by_req_id.get(key) if request.is_tool_call else None
        if pending is None:
            pending = _PendingRequest(request, asyncio.get_running_loop().create_future())
            self._add(pending)
            pending.answer = asyncio.create_task(self._run(pending))
            pending.answer.add_done_callback(lambda _: self._remove(pending))
        assert pending.answer is not None, "the task was created just now or with the first request"
        return await asyncio.shield(pending.answer)

    async def cancel(self, sid: str, req_id: str) -> bool:
        """Send a cancel notification to the Computer. Return whether this connection has such a call in
        flight."""
        pending = self._by_req_id.get((sid, req_id))
        if pending is None:
            return False
        await self._cancel(pending)
        return True

    async def cancel_by_call_id(self, call_id: str) -> bool:
        """The same for a call identified by its id in the call log."""
        pending = self._by_call_id.get(call_id)
        if pending is None:
            return False
        await self._cancel(pending)
        return True

    def call_id_of(self, sid: str, req_id: str) -> str | None:
        """The id in the call log of a call in flight; None if it is not recorded yet or has ended."""
        pending = self._by_req_id.get((sid, req_id))
        return next((call_id for call_id, one in self._by_call_id.items() if one is pending), None)

    async def handle_left(self, sid: str) -> None:
        """A connection has ended or left its office. Requests to it are answered at once, its own calls are
        cancelled."""
        for pending in tuple(self._by_target.get(sid, ())):
            _settle(pending, _DISCONNECTED)
        for pending in tuple(self._by_caller.get(sid, ())):
            if pending.request.is_tool_call and not pending.outcome.done():
                await self._cancel(pending)
            _settle(pending, CANCELLED)

    # -- internals --

    async def _run(self, pending: _PendingRequest) -> Ack:
        """The call is recorded before the Computer receives it, its answer before the Agent receives that."""
        request, began, call_id = pending.request, self._records.monotonic(), ""
        if request.is_tool_call:
            call_id = await self._records.record_call(request)
            self._by_call_id[call_id] = pending
        try:
            refusal = None
            if request.is_tool_call:
                refusal = await self._approvals.check(call_id, request, pending.outcome)
            answer = refusal if refusal is not None else await self._forward(pending)
        finally:
            self._by_call_id.pop(call_id, None)
        if request.is_tool_call:
            await self._records.record_answer(call_id, request, answer, began)
        else:
            await self._records.record_tools(request, answer)
        return answer

    async def _forward(self, pending: _PendingRequest) -> Ack:
        request = pending.request
        timer = asyncio.get_running_loop().call_later(request.deadline, _settle, pending, _TIMED_OUT)
        stop_waiting: StopWaiting | None = None
        try:
            if not pending.outcome.done():
                pending.is_sent = True
                stop_waiting = await self._transport.send_request(request, lambda *answer: _settle(pending, answer))
            outcome = await pending.outcome
            if outcome is _TIMED_OUT:
                return await self._time_out(pending)
        finally:
            timer.cancel()
            if stop_waiting is not None:
                stop_waiting()
        if outcome == CANCELLED and request.is_tool_call:
            return cancelled()
        if outcome is _DISCONNECTED or outcome == CANCELLED:
            return computer_not_found(request.target.name)
        # The answer is passed on verbatim, including flat errors, `meta` and `_meta`.
        answer = outcome[0] if outcome else None
        return answer if isinstance(answer, dict) else event_not_supported(request.event.name)

    async def _time_out(self, pending: _PendingRequest) -> Ack:
        request = pending.request
        if not request.is_tool_call:
            return flat_error(TIMEOUT, f"The Computer did not answer {request.event.name}")
        await self._cancel(pending)
        return timed_out(float(request.payload["timeout"]))

    async def _cancel(self, pending: _PendingRequest) -> None:
        if not pending.is_sent:
            _settle(pending, CANCELLED)
            return
        await self._transport.send_cancel(pending.request)

    def _add(self, pending: _PendingRequest) -> None:
        request = pending.request
        self._by_caller.setdefault(request.caller.sid, set()).add(pending)
        self._by_target.setdefault(request.target.sid, set()).add(pending)
        if request.is_tool_call:
            self._by_req_id[request.caller.sid, request.req_id] = pending

    def _remove(self, pending: _PendingRequest) -> None:
        request = pending.request
        for index, sid in ((self._by_caller, request.caller.sid), (self._by_target, request.target.sid)):
            index[sid].discard(pending)
            if not index[sid]:
                del index[sid]
        if self._by_req_id.get((request.caller.sid, request.req_id)) is pending:
            del self._by_req_id[request.caller.sid, request.req_id]


def _settle(pending: _PendingRequest, outcome: object) -> None:
    """Set the outcome, unless one is set: the first one counts."""
    if not pending.outcome.done():
        pending.outcome.set_result(outcome)
