"""Asks people to approve calls where the configured rules require it, and lets people with the permission
`administer` cancel calls that are running.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from bridge.approvals.approval import Approved, Expired, Refused, Withdrawn, reaction_means, text_means
from bridge.approvals.service import Approvals, Question, Thread
from bridge.approvals.texts import span
from bridge.connectors.offices.protocol.errors import Ack, computer_not_found, result_error
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.rooms.call_events import ToolCall, call_summary, note_content
from bridge.connectors.offices.rooms.masking import masked
from bridge.connectors.offices.rooms.record_rows import process_of
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.calls import CANCELLED
from bridge.connectors.offices.settings import OfficeSettings
from bridge.people.message import CANCEL, MESSAGE, REACTION
from bridge.people.permissions import Level
from bridge.people.service.event_inbox import EventInbox
from bridge.people.texts.text import MARK, Text, format_name, one_line
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from storage.offices import records as office_records

NAME: Final = "offices-people"
POLL_INTERVAL: Final = 0.1
"""Seconds between two lookups of a call's message, to whose thread the question belongs. Another process may
be the one that sends it."""

CancelCall = Callable[[str], Awaitable[bool]]
Forward = Callable[[RoomEvent], None]

APPROVAL: Final = "a2c_approval"
"""The key in a result's `meta` which says why the tool was not called."""
MAX_USER_LENGTH: Final = 255


def question_text(call: ToolCall) -> Text:
    """For example: boss wants to call add on hands."""
    return call_summary(call, "wants to call")


def computer_left_text(call: ToolCall) -> Text:
    return format_name(call.computer) + Text.of(" has disconnected, so no decision is needed.")


def cancelled_text(call: ToolCall) -> Text:
    return format_name(call.agent) + Text.of(" has cancelled the call.")


def not_permitted_text(user: str) -> Text:
    """To a person without the permission to cancel a running call."""
    return format_name(user) + Text.of(' cannot stop this call without the permission "administer".')


# -- answers to the Agent --


def refusal_answer(verdict: Refused | Expired, seconds: float) -> Ack:
    """A tool result in place of the tool's own: models read the text, programs the mark in `meta`."""
    match verdict:
        case Refused(by):
            user = one_line(by, MAX_USER_LENGTH)
            text = f"{user} has refused this call. Do not repeat it unless you are asked to."
            return result_error(text, **{APPROVAL: "refused", "by": user})
        case Expired():
            text = f"This call needs approval, and no approver has answered within {span(seconds)}."
            return result_error(text, **{APPROVAL: "expired"})


def withdrawn_answer(call: ToolCall, *, is_cancelled: bool) -> Ack:
    """The Agent has cancelled the call, or the Computer has left, before it was approved."""
    if not is_cancelled:
        return computer_not_found(call.computer)
    return result_error("The call was cancelled before it was approved.", a2c_cancelled=True)


def denied_answer() -> Ack:
    """The configuration refuses the call, so no person was asked."""
    return result_error("The rules of this node deny this call.", **{APPROVAL: "refused"})


class CallApprovals:
    """Approvals of calls, and people's reactions to calls. `cancel_call` takes the id of a call and returns
    whether it was running. Events are handled between `start` and `close`."""

    def __init__(self, parts: RoomParts, settings: OfficeSettings, cancel_call: CancelCall) -> None:
        self._parts = parts
        self._settings = settings
        self._cancel_call = cancel_call
        self._node_user = parts.settings.names.node_user
        self._approvals = Approvals(parts.backend, parts.database, parts.settings, now_ms=parts.now_ms)
        # Set if several processes of the node serve the same offices: the name of this process, and how
        # events that concern another process are forwarded to it.
        self._process = ""
        self._forward: Forward | None = None
        self._inbox = EventInbox(
            parts.backend,
            parts.database,
            NAME,
            self._handle_entry,
            parts.report,
            wanted=self._concerns,
            queue_of=lambda entry: entry.event.room_id if _is_reply(entry) else None,
        )

    def forward_with(self, process: str, forward: Forward) -> None:
        """Must be called before `start`."""
        self._process, self._forward = process, forward

    def start(self) -> None:
        self._inbox.start()

    async def close(self) -> None:
        await self._inbox.close()

    async def check(self, call_id: str, request: RelayRequest, outcome: "asyncio.Future[Any]") -> Ack | None:
        """Return the answer to the Agent if the call must not be made, None if it may. `outcome` is set when
        the call ends before a decision: the Agent has cancelled it, or its Computer has left."""
        rule = self._settings.rule(request.caller.office_id, request.payload["tool_name"])
        if rule.approval == "auto":
            return None
        if rule.approval == "deny":
            return denied_answer()
        call = ToolCall(
            call_id=call_id,
            req_id=request.req_id,
            agent=request.caller.name,
            computer=request.target.name,
            tool_name=request.payload["tool_name"],
            params=masked(request.payload["params"], self._settings.mask),
            at_ms=self._parts.now_ms(),
        )
        question = Question(f"office/{call_id}", question_text(call), "call", rule.deadline, rule.approvers)
        withdrawn: asyncio.Future[Text] = asyncio.get_running_loop().create_future()

        def is_cancelled() -> bool:
            return bool(outcome.result() == CANCELLED)

        def withdraw(_: object) -> None:
            withdrawn.set_result(cancelled_text(call) if is_cancelled() else computer_left_text(call))

        outcome.add_done_callback(withdraw)
        try:
            verdict = await self._approvals.decide(question, partial(self._thread, call_id), withdrawn)
        finally:
            outcome.remove_done_callback(withdraw)
        match verdict:
            case Approved():
                return None
            case Withdrawn():
                return withdrawn_answer(call, is_cancelled=is_cancelled())
        return refusal_answer(verdict, rule.deadline)

    async def _thread(self, call_id: str) -> Thread:
        """Wait until the call's message has been sent to the room, and return its thread."""
        while True:
            async with self._parts.database.transaction(readonly=True) as connection:
                call_event = await office_records.fetch_call_event(connection, call_id)
            if call_event is not None:
                break
            await asyncio.sleep(POLL_INTERVAL)
        async with self._parts.database.transaction(readonly=True) as connection:
            office_id = await office_records.fetch_office_of_event(connection, call_event)
        assert office_id is not None, "the call's event belongs to an office"
        return Thread(await self._parts.room_of(office_id), call_event)

    # -- events --

    def _concerns(self, event: RoomEvent) -> bool:
        return event.type in {REACTION, MESSAGE} and not self._parts.settings.names.is_ours(event.sender)

    async def _handle_entry(self, entry: StreamedEvent) -> None:
        if not await self._handle(entry.event) and self._forward is not None:
            self._forward(entry.event)

    async def handle_forwarded(self, event: RoomEvent) -> None:
        """Handle an event that was read by the process that reads the stream for all processes."""
        if self._concerns(event):
            await self._handle(event)

    async def _handle(self, event: RoomEvent) -> bool:
        """Return False if the event may concern a call of another process."""
        related = event.content.get("m.relates_to")
        if not isinstance(related, dict) or MARK in event.content:
            return True
        target = related.get("event_id")
        if not isinstance(target, str) or self._approvals.handle(event):
            return True
        if event.type == REACTION:
            key = related.get("key")
            if not isinstance(key, str):
                return True
            if key in CANCEL and await self._try_cancel(event, target):
                return True
            return reaction_means(key) is None and key not in CANCEL
        text = event.content.get("body")
        return not isinstance(text, str) or text_means(text) is None

    async def _try_cancel(self, event: RoomEvent, target: str) -> bool:
        try:
            return await self._cancel(event, target)
        except MatrixError as refused:
            self._parts.report("Failed to cancel a call of an office.", refused)
            return True

    def _administers(self, user: str) -> bool:
        return self._parts.settings.rights.of(user).level.includes(Level.ADMINISTER)

    async def _cancel(self, event: RoomEvent, call_event: str) -> bool:
        """Cancel a running call if the sender has the permission `administer`; otherwise reply that it is not
        permitted. A call that has ended is ignored. Return False if the event is no call, or is a call of
        another process."""
        async with self._parts.database.transaction(readonly=True) as connection:
            call_id = await office_records.fetch_call_of_event(connection, call_event)
            if call_id is None:
                return False
            if not await office_records.is_unanswered(connection, call_id):
                return True
            [called] = await office_records.fetch_call(connection, call_id)
        if self._forward is not None and process_of(called.body) != self._process:
            return False
        if not self._administers(event.sender):
            text, name = not_permitted_text(event.sender), f"may not stop/{event.sender}"
        elif await self._cancel_call(call_id):
            text, name = Text.of("❌ ") + format_name(event.sender) + Text.of(" has cancelled it."), "stopped"
        else:
            return True
        await self._parts.backend.send(
            event.room_id,
            self._node_user,
            MESSAGE,
            note_content(text, call_event=call_event),
            transaction_id=f"office/{call_id}/{name}"[:255],
        )
        return True


def _is_reply(entry: StreamedEvent) -> bool:
    """Whether the event relates to another event."""
    return entry.kind == "timeline" and isinstance(entry.event.content.get("m.relates_to"), dict)
