"""Asks people before a tool is called, where the rules say so, and hears what they answer; and stops a call
that is under way when somebody who may takes it back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.connectors.offices.approval import (
    Approval,
    Asked,
    ComputerGone,
    Drop,
    Expire,
    Input,
    Let,
    NotPermitted,
    Reacted,
    Refuse,
    Said,
    Tick,
    Withdrawn,
    may_approve,
    reaction_means,
    text_means,
)
from bridge.connectors.offices.approval_texts import (
    agent_answer,
    denied_answer,
    ending_text,
    may_not_stop,
    not_permitted,
    question,
)
from bridge.connectors.offices.call_events import ToolCall, note_content, shown_name
from bridge.connectors.offices.flat_error import Flat
from bridge.connectors.offices.masking import masked
from bridge.connectors.offices.relay import Relay
from bridge.connectors.offices.service.record_rows import process_of
from bridge.connectors.offices.service.recording import RoomParts
from bridge.connectors.offices.settings import ApprovalRule, OfficeSettings
from bridge.people.message import MESSAGE, REACTION
from bridge.people.permissions import Level
from bridge.people.service.reader import Reader
from bridge.people.text import MARK, Text
from bridge.people.thread import CANCEL
from federation.errors import MatrixError
from federation.room_event import EventHead, RoomEvent, StreamedEvent
from storage import office_records

NAME: Final = "offices-people"
LOOKED_FOR_EVERY: Final = 0.1
"""Seconds between two looks for the message of a call, to which the question belongs: it may be another
process that tells the room."""

Stop = Callable[[str], Awaitable[bool]]
PassOn = Callable[[RoomEvent], None]


@dataclass(eq=False, slots=True)
class _Question:
    rule: ApprovalRule
    room_id: str = ""
    heard: "asyncio.Queue[Input]" = field(default_factory=asyncio.Queue)


class Approving:
    """`stop` is given the id of a call, and says whether it was under way. It runs between `start` and
    `close`."""

    def __init__(self, parts: RoomParts, settings: OfficeSettings, stop: Stop) -> None:
        self._parts = parts
        self._settings = settings
        self._stop = stop
        self._node_user = parts.settings.names.node_user
        # By the messages that an answer may belong to.
        self._open: dict[str, _Question] = {}
        # Where several processes of the node serve the same offices: the name of this one, and how others are
        # told what only they can know.
        self._process = ""
        self._say: PassOn | None = None
        self._reader = Reader(
            parts.side, parts.database, NAME, self._hear, parts.report, wanted=self._concerns
        )

    def pass_on(self, process: str, say: PassOn) -> None:
        """Before `start`."""
        self._process, self._say = process, say

    def start(self) -> None:
        self._reader.start()

    async def close(self) -> None:
        await self._reader.close()

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
        ending = await self._decided(call, rule, relay, given_up)
        return None if isinstance(ending, Let) else agent_answer(call, ending, rule.deadline)

    # -- asking --

    async def _decided(
        self, call: ToolCall, rule: ApprovalRule, relay: Relay, given_up: "asyncio.Future[Any]"
    ) -> Let | Refuse | Expire | Drop:
        loop = asyncio.get_running_loop()
        asked = _Question(rule)
        approval = Approval(rule.deadline)
        approval.receive(Asked(), loop.time())

        def give_up(_: object) -> None:
            asked.heard.put_nowait(Withdrawn() if given_up.result() == "withdrawn" else ComputerGone())

        given_up.add_done_callback(give_up)
        asking = asyncio.create_task(self._ask(call, asked))
        try:
            while True:
                happened = await self._next(asked, approval, loop)
                for effect in approval.receive(happened, loop.time()):
                    if isinstance(effect, NotPermitted):
                        await self._note(asked, asking, not_permitted(effect.user), call, effect.user)
                    elif isinstance(effect, Let | Refuse | Expire | Drop):
                        await self._note(asked, asking, ending_text(call, effect), call, "ending")
                        return effect
        finally:
            given_up.remove_done_callback(give_up)
            asking.cancel()
            for event_id in [one for one, open_ in self._open.items() if open_ is asked]:
                del self._open[event_id]

    async def _next(self, asked: _Question, approval: Approval, loop: asyncio.AbstractEventLoop) -> Input:
        deadline = approval.deadline()
        assert deadline is not None, "it waits"
        try:
            async with asyncio.timeout_at(deadline):
                return await asked.heard.get()
        except TimeoutError:
            return Tick()

    async def _ask(self, call: ToolCall, asked: _Question) -> tuple[str, str]:
        """In the thread of the call: its room, and its root."""
        while True:
            async with self._parts.database.transaction(readonly=True) as connection:
                call_event = await office_records.fetch_call_event(connection, call.call_id)
            if call_event is not None:
                break
            await asyncio.sleep(LOOKED_FOR_EVERY)
        room_id = await self._room(call_event)
        asked.room_id = room_id
        mentions = [one for one in asked.rule.approvers if one.startswith("@")]
        said = note_content(question(call, asked.rule.deadline), call_event=call_event, mentions=mentions)
        # An answer to the call is one to the question.
        self._open[call_event] = asked
        name = f"office/{call.call_id}/question"
        question_event = await self._parts.side.send(
            room_id, self._node_user, MESSAGE, said, transaction_id=name
        )
        self._open[question_event] = asked
        return room_id, call_event

    async def _note(
        self, asked: _Question, asking: "asyncio.Task[tuple[str, str]]", said: Text, call: ToolCall, name: str
    ) -> None:
        """Where nobody could be asked, nobody is told either."""
        if not asking.done() or asking.cancelled() or asking.exception() is not None:
            return
        room_id, call_event = asking.result()
        with suppress(MatrixError):
            await self._parts.side.send(
                room_id,
                self._node_user,
                MESSAGE,
                note_content(said, call_event=call_event),
                transaction_id=f"office/{call.call_id}/{name}"[:255],
            )

    async def _room(self, event_id: str) -> str:
        async with self._parts.database.transaction(readonly=True) as connection:
            office_id = await office_records.fetch_office_of_event(connection, event_id)
        assert office_id is not None, "the room has been told of it"
        return await self._parts.room_of(office_id)

    # -- hearing --

    def _concerns(self, event: EventHead) -> bool:
        return event.type in {REACTION, MESSAGE} and not self._parts.settings.names.is_ours(event.sender)

    async def _hear(self, entries: Sequence[StreamedEvent]) -> None:
        for entry in entries:
            if entry.kind != "timeline" or not self._concerns(entry.event):
                continue
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
        if not isinstance(target, str):
            return True
        asked = self._open.get(target)
        if event.type == REACTION:
            key = related.get("key")
            if not isinstance(key, str):
                return True
            if asked is not None:
                asked.heard.put_nowait(Reacted(event.sender, key, self._may(asked.rule, event.sender)))
                return True
            if key in CANCEL and await self._stopped(event, target):
                return True
            return reaction_means(key) is None and key not in CANCEL
        text = event.content.get("body")
        if not isinstance(text, str):
            return True
        if asked is None:
            return text_means(text) is None
        asked.heard.put_nowait(Said(event.sender, text, self._may(asked.rule, event.sender)))
        return True

    async def _stopped(self, event: RoomEvent, target: str) -> bool:
        try:
            return await self._stop_call(event, target)
        except MatrixError as refused:
            self._parts.report("A call of an office could not be stopped.", refused)
            return True

    def _may(self, rule: ApprovalRule, user: str) -> bool:
        return may_approve(rule, user, administers=self._administers(user))

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
