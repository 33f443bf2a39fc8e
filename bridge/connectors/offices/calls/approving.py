"""Asks people before a tool is called, where the rules say so, and handles what they answer; stops a call
that is under way when a person who may takes it back; and what people and the Agent read of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from bridge.approvals.approval import Approved, Expired, Refused, Withdrawn, reaction_means, text_means
from bridge.approvals.service import Approvals, Question, Thread
from bridge.approvals.texts import span
from bridge.connectors.offices.protocol.errors import Flat, computer_not_found, result_error
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.rooms.call_events import ToolCall, call_words, note_content
from bridge.connectors.offices.rooms.masking import masked
from bridge.connectors.offices.rooms.record_rows import process_of
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.settings import OfficeSettings
from bridge.people.message import CANCEL, MESSAGE, REACTION
from bridge.people.permissions import Level
from bridge.people.service.event_inbox import EventInbox
from bridge.people.texts.text import MARK, Text, one_line, shown_name
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from storage.offices import records as office_records

NAME: Final = "offices-people"
LOOKED_FOR_EVERY: Final = 0.1
"""Seconds between two looks for the message of a call, to which the question belongs: it may be another
process that tells the room."""

Stop = Callable[[str], Awaitable[bool]]
PassOn = Callable[[RoomEvent], None]

APPROVAL: Final = "a2c_approval"
"""In the `meta` of a result: why there is none of the tool."""
LONGEST_USER: Final = 255


def wish(call: ToolCall) -> Text:
    """boss wants add on hands."""
    return call_words(call, "wants")


def computer_gone(call: ToolCall) -> Text:
    return shown_name(call.computer) + Text.of(" is gone: there is nothing to decide.")


def taken_back(call: ToolCall) -> Text:
    return shown_name(call.agent) + Text.of(" has taken it back.")


def may_not_stop(user: str) -> Text:
    """To somebody who would take back a call that is under way."""
    return shown_name(user) + Text.of(' may not stop this call: that takes the permission "administer".')


# -- to the Agent --


def agent_answer(verdict: Refused | Expired, seconds: float) -> Flat:
    """In place of what the tool would have said: models read the text, programs the mark."""
    match verdict:
        case Refused(by):
            user = one_line(by, LONGEST_USER)
            said = f"{user} has refused this call. Do not make it again unless you are told to."
            return result_error(said, **{APPROVAL: "refused", "by": user})
        case Expired():
            said = f"This call needs somebody's approval, and nobody has answered within {span(seconds)}."
            return result_error(said, **{APPROVAL: "expired"})


def withdrawn_answer(call: ToolCall, *, is_taken_back: bool) -> Flat:
    """The Agent has taken it back, or there is no Computer any more."""
    if not is_taken_back:
        return computer_not_found(call.computer)
    return result_error("The call was taken back before anybody had approved it.", a2c_cancelled=True)


def denied_answer() -> Flat:
    """Of a call that the configuration refuses: nobody has been asked."""
    return result_error("The rules of this node refuse this call.", **{APPROVAL: "refused"})


class Approving:
    """`stop` is given the id of a call, and says whether it was under way. It runs between `start` and
    `close`."""

    def __init__(self, parts: RoomParts, settings: OfficeSettings, stop: Stop) -> None:
        self._parts = parts
        self._settings = settings
        self._stop = stop
        self._node_user = parts.settings.names.node_user
        self._approvals = Approvals(parts.side, parts.database, parts.settings, now_ms=parts.now_ms)
        # Where several processes of the node serve the same offices: the name of this one, and how others are
        # told what only they can know.
        self._process = ""
        self._say: PassOn | None = None
        self._inbox = EventInbox(
            parts.side,
            parts.database,
            NAME,
            self._hear,
            parts.report,
            wanted=self._concerns,
            queue_of=lambda entry: entry.event.room_id if _is_answer(entry) else None,
        )

    def pass_on(self, process: str, say: PassOn) -> None:
        """Before `start`."""
        self._process, self._say = process, say

    def start(self) -> None:
        self._inbox.start()

    async def close(self) -> None:
        await self._inbox.close()

    async def let(self, call_id: str, relay: Relay, given_up: "asyncio.Future[Any]") -> Flat | None:
        """What the Agent is answered instead of the tool; None: the call is made. `given_up` is done when
        there is nothing to decide any more."""
        rule = self._settings.rule(relay.caller.office_id, relay.said["tool_name"])
        if rule.approval == "auto":
            return None
        if rule.approval == "deny":
            return denied_answer()
        call = ToolCall(
            call_id=call_id,
            req_id=relay.req_id,
            agent=relay.caller.name,
            computer=relay.target.name,
            tool_name=relay.said["tool_name"],
            params=masked(relay.said["params"], self._settings.mask),
            at_ms=self._parts.now_ms(),
        )
        question = Question(f"office/{call_id}", wish(call), "call", rule.deadline, rule.approvers)
        withdrawn: asyncio.Future[Text] = asyncio.get_running_loop().create_future()

        def is_taken_back() -> bool:
            return bool(given_up.result() == "withdrawn")

        def give_up(_: object) -> None:
            withdrawn.set_result(taken_back(call) if is_taken_back() else computer_gone(call))

        given_up.add_done_callback(give_up)
        try:
            verdict = await self._approvals.decide(question, partial(self._thread, call_id), withdrawn)
        finally:
            given_up.remove_done_callback(give_up)
        match verdict:
            case Approved():
                return None
            case Withdrawn():
                return withdrawn_answer(call, is_taken_back=is_taken_back())
        return agent_answer(verdict, rule.deadline)

    async def _thread(self, call_id: str) -> Thread:
        """That of the call, once its room has been told of it."""
        while True:
            async with self._parts.database.transaction(readonly=True) as connection:
                call_event = await office_records.fetch_call_event(connection, call_id)
            if call_event is not None:
                break
            await asyncio.sleep(LOOKED_FOR_EVERY)
        async with self._parts.database.transaction(readonly=True) as connection:
            office_id = await office_records.fetch_office_of_event(connection, call_event)
        assert office_id is not None, "the room has been told of it"
        return Thread(await self._parts.room_of(office_id), call_event)

    # -- hearing --

    def _concerns(self, event: RoomEvent) -> bool:
        return event.type in {REACTION, MESSAGE} and not self._parts.settings.names.is_ours(event.sender)

    async def _hear(self, entry: StreamedEvent) -> None:
        if not await self._heard(entry.event) and self._say is not None:
            self._say(entry.event)

    async def hear_passed(self, event: RoomEvent) -> None:
        """What the process has heard that reads for all."""
        if self._concerns(event):
            await self._heard(event)

    async def _heard(self, event: RoomEvent) -> bool:
        """Whether nobody else need hear it."""
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
            if key in CANCEL and await self._stopped(event, target):
                return True
            return reaction_means(key) is None and key not in CANCEL
        text = event.content.get("body")
        return not isinstance(text, str) or text_means(text) is None

    async def _stopped(self, event: RoomEvent, target: str) -> bool:
        try:
            return await self._stop_call(event, target)
        except MatrixError as refused:
            self._parts.report("A call of an office could not be stopped.", refused)
            return True

    def _administers(self, user: str) -> bool:
        return self._parts.settings.rights.of(user).level.includes(Level.ADMINISTER)

    async def _stop_call(self, event: RoomEvent, call_event: str) -> bool:
        """Whoever administers takes back what an Agent has called; who may not is told so. What is over is
        left alone. Whether it is a call, and none that another process has."""
        async with self._parts.database.transaction(readonly=True) as connection:
            call_id = await office_records.fetch_call_of_event(connection, call_event)
            if call_id is None:
                return False
            if not await office_records.is_unanswered(connection, call_id):
                return True
            [called] = await office_records.fetch_call(connection, call_id)
        if self._say is not None and process_of(called.body) != self._process:
            return False
        if not self._administers(event.sender):
            said, name = may_not_stop(event.sender), f"may not stop/{event.sender}"
        elif await self._stop(call_id):
            said, name = Text.of("❌ ") + shown_name(event.sender) + Text.of(" stops it."), "stopped"
        else:
            return True
        await self._parts.side.send(
            event.room_id,
            self._node_user,
            MESSAGE,
            note_content(said, call_event=call_event),
            transaction_id=f"office/{call_id}/{name}"[:255],
        )
        return True


def _is_answer(entry: StreamedEvent) -> bool:
    """Whether it is said of another event."""
    return entry.kind == "timeline" and isinstance(entry.event.content.get("m.relates_to"), dict)
