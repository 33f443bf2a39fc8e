"""Calls on their way from an Agent to a Computer and back: each is answered once, whatever becomes of either.

The transport tells of an answer, and of nothing else: that the Computer has gone, or the time is over, is
noticed here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.protocol.errors import (
    TIMEOUT,
    Flat,
    computer_not_found,
    event_not_supported,
    flat,
    timed_out,
    withdrawn,
)
from bridge.connectors.offices.protocol.relay import Relay

if TYPE_CHECKING:
    from bridge.connectors.offices.calls.approving import Approving
    from bridge.connectors.offices.rooms.call_log import OfficeRecords
    from bridge.connectors.offices.server.server import SmcpServer


Answered = Callable[..., None]
Forget = Callable[[], None]
WITHDRAWN: Final = "withdrawn"
"""How a call has ended that was taken back before its Computer knew it."""
_GONE: Final = object()
_LATE: Final = object()


@dataclass(eq=False, slots=True)
class _Call:
    relay: Relay
    outcome: "asyncio.Future[Any]"
    answer: "asyncio.Task[Flat] | None" = field(default=None)
    # What the Computer does not know yet it need not be told to stop.
    is_made: bool = False


class Relaying:
    """Calls by whoever makes them and by whoever they are for."""

    def __init__(self, transport: "SmcpServer", records: "OfficeRecords", gate: "Approving") -> None:
        self._transport = transport
        self._records = records
        self._gate = gate
        self._of_caller: dict[str, set[_Call]] = {}
        self._of_target: dict[str, set[_Call]] = {}
        self._by_id: dict[tuple[str, str], _Call] = {}
        self._by_record: dict[str, _Call] = {}

    def in_flight(self, sid: str) -> int:
        return len(self._of_caller.get(sid, ()))

    async def relay(self, relay: Relay) -> Flat:
        """The answer for the caller. "Repeated `req_id` in flight: sent once; both get the one result." """
        key = relay.caller.sid, relay.req_id
        call = self._by_id.get(key) if relay.is_tool_call else None
        if call is None:
            call = _Call(relay, asyncio.get_running_loop().create_future())
            self._note(call)
            call.answer = asyncio.create_task(self._bring(call))
            call.answer.add_done_callback(lambda _: self._forget(call))
        assert call.answer is not None, "it has just been begun"
        return await asyncio.shield(call.answer)

    async def cancel(self, sid: str, req_id: str) -> bool:
        """Tell the Computer that has the call. Whether there is such a call of this connection."""
        call = self._by_id.get((sid, req_id))
        if call is None:
            return False
        await self._stop(call)
        return True

    async def stop(self, call_id: str) -> bool:
        """The same by the id under which the call was written down."""
        call = self._by_record.get(call_id)
        if call is None:
            return False
        await self._stop(call)
        return True

    def call_under_way(self, sid: str, req_id: str) -> str | None:
        """The id under which it was written down; None for one that was not, or is over."""
        call = self._by_id.get((sid, req_id))
        return next((call_id for call_id, one in self._by_record.items() if one is call), None)

    async def gone(self, sid: str) -> None:
        """A connection has ended, or has left its office. Who waits for it is answered at once, and what it
        has asked for is stopped."""
        for call in tuple(self._of_target.get(sid, ())):
            _settle(call, _GONE)
        for call in tuple(self._of_caller.get(sid, ())):
            if call.relay.is_tool_call and not call.outcome.done():
                await self._stop(call)
            _settle(call, WITHDRAWN)

    # -- inside --

    async def _bring(self, call: _Call) -> Flat:
        """It is written down before the Computer is asked, and its answer before the Agent has it."""
        relay, began, call_id = call.relay, self._records.began(), ""
        if relay.is_tool_call:
            call_id = await self._records.called(relay)
            self._by_record[call_id] = call
        try:
            instead = await self._gate.let(call_id, relay, call.outcome) if relay.is_tool_call else None
            answer = instead if instead is not None else await self._fetch(call)
        finally:
            self._by_record.pop(call_id, None)
        if relay.is_tool_call:
            await self._records.answered(call_id, relay, answer, began)
        else:
            await self._records.looked(relay, answer)
        return answer

    async def _fetch(self, call: _Call) -> Flat:
        relay = call.relay
        late = asyncio.get_running_loop().call_later(relay.deadline, _settle, call, _LATE)
        forget: Forget | None = None
        try:
            if not call.outcome.done():
                call.is_made = True
                forget = await self._transport.bring(relay, lambda *answer: _settle(call, answer))
            outcome = await call.outcome
            if outcome is _LATE:
                return await self._end_late(call)
        finally:
            late.cancel()
            if forget is not None:
                forget()
        if outcome == WITHDRAWN and relay.is_tool_call:
            return withdrawn()
        if outcome is _GONE or outcome == WITHDRAWN:
            return computer_not_found(relay.target.name)
        # As it is: flat errors, `meta` and `_meta` and all.
        answer = outcome[0] if outcome else None
        return answer if isinstance(answer, dict) else event_not_supported(relay.event.name)

    async def _end_late(self, call: _Call) -> Flat:
        relay = call.relay
        if not relay.is_tool_call:
            return flat(TIMEOUT, f"The Computer has not answered {relay.event.name}")
        await self._stop(call)
        return timed_out(float(relay.said["timeout"]))

    async def _stop(self, call: _Call) -> None:
        if not call.is_made:
            _settle(call, WITHDRAWN)
            return
        await self._transport.stop_asking(call.relay)

    def _note(self, call: _Call) -> None:
        relay = call.relay
        self._of_caller.setdefault(relay.caller.sid, set()).add(call)
        self._of_target.setdefault(relay.target.sid, set()).add(call)
        if relay.is_tool_call:
            self._by_id[relay.caller.sid, relay.req_id] = call

    def _forget(self, call: _Call) -> None:
        relay = call.relay
        for calls, sid in ((self._of_caller, relay.caller.sid), (self._of_target, relay.target.sid)):
            calls[sid].discard(call)
            if not calls[sid]:
                del calls[sid]
        if self._by_id.get((relay.caller.sid, relay.req_id)) is call:
            del self._by_id[relay.caller.sid, relay.req_id]


def _settle(call: _Call, outcome: object) -> None:
    """The first to say how it ended has."""
    if not call.outcome.done():
        call.outcome.set_result(outcome)
