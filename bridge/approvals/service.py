"""Asks people in a room, and awaits their verdict, which is committed before anything follows from it.

A question belongs to a thread: answers are reactions to the message that asks or to the root of the thread,
replies to them, and messages in the thread. The connector that asks reads its rooms, and passes what people
write to `handle`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from bridge.approvals.approval import (
    Approval,
    Approved,
    Ask,
    Asked,
    Expired,
    Input,
    NotPermitted,
    Reacted,
    Refused,
    Replied,
    State,
    Tick,
    Verdict,
    Withdraw,
    Withdrawn,
    may_answer,
)
from bridge.approvals.texts import not_permitted, question_text, verdict_text
from bridge.matrix.backend import MatrixBackend
from bridge.people.message import MESSAGE, REACTION
from bridge.people.permissions import Level
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import MARK, Kind, Text, content_of
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import in_thread
from storage.database import Database
from storage.people import approvals
from storage.people.approvals import ApprovalRow

LONGEST_TRANSACTION: Final = 255


@dataclass(frozen=True, slots=True)
class Question:
    """`reference` names it among all questions of the node: asked again after a kill it is the same message.
    `subject` is what is decided about, in a word. `approvers` are users and servers; none of them: people who
    may administer."""

    reference: str
    text: Text
    subject: str
    seconds: float
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """In which a question is asked."""

    room_id: str
    root: str


FindThread = Callable[[], Awaitable[Thread]]
"""Waits until the thread is there. It is not called for a question that has its verdict."""


@dataclass(eq=False, slots=True)
class _Open:
    question: Question
    answers: "asyncio.Queue[Input]" = field(default_factory=asyncio.Queue)


class Approvals:
    def __init__(
        self, side: MatrixBackend, database: Database, people: PeopleSettings, *, now_ms: Callable[[], int]
    ) -> None:
        self._side = side
        self._database = database
        self._people = people
        self._now_ms = now_ms
        # By the messages that an answer may relate to.
        self._open: dict[str, _Open] = {}

    async def decide(
        self, question: Question, thread: FindThread, withdrawn: "asyncio.Future[Text]"
    ) -> Verdict:
        """It is committed when this returns. The time runs from when the question was asked first, whenever
        the thread is there; asked again, the question has the same time and the same verdict. `withdrawn` is
        done when there is nothing to decide any more, with what people are told."""
        now_ms = self._now_ms()
        until = now_ms + int(question.seconds * 1000)
        async with self._database.transaction() as connection:
            known = await approvals.insert_approval(connection, question.reference, now_ms, until)
        if known.verdict is not None:
            return _read(known)
        loop = asyncio.get_running_loop()
        opened = _Open(question)
        approval = Approval((known.until - now_ms) / 1000)
        [asked] = approval.receive(Asked(), loop.time())
        assert isinstance(asked, Ask), "it was not asked before"

        def withdraw(reason: "asyncio.Future[Text]") -> None:
            if not reason.cancelled():
                opened.answers.put_nowait(Withdraw(reason.result()))

        withdrawn.add_done_callback(withdraw)
        asking = asyncio.create_task(self._ask(opened, thread))
        try:
            while True:
                happened = await _next(opened, approval)
                for effect in approval.receive(happened, loop.time()):
                    if isinstance(effect, NotPermitted):
                        note = not_permitted(effect.user, question.subject)
                        await self._note(question, asking, note, effect.user)
                    elif not isinstance(effect, Ask):
                        verdict = await self._commit(question, effect)
                        await self._note(question, asking, verdict_text(verdict), "ending")
                        return verdict
        finally:
            withdrawn.remove_done_callback(withdraw)
            asking.cancel()
            for event_id in [one for one, known in self._open.items() if known is opened]:
                del self._open[event_id]

    def handle(self, event: RoomEvent) -> bool:
        """Whether it relates to a question that this process has asked."""
        related = event.content.get("m.relates_to")
        target = related.get("event_id") if isinstance(related, dict) else None
        opened = self._open.get(target) if isinstance(target, str) else None
        if opened is None or not isinstance(related, dict) or MARK in event.content:
            return False
        allowed = self._may_answer(opened.question, event.sender)
        key, body = related.get("key"), event.content.get("body")
        if event.type == REACTION and isinstance(key, str):
            opened.answers.put_nowait(Reacted(event.sender, key, allowed))
        elif event.type == MESSAGE and isinstance(body, str):
            opened.answers.put_nowait(Replied(event.sender, body, allowed))
        return True

    def _may_answer(self, question: Question, user: str) -> bool:
        administers = self._people.rights.of(user).level.includes(Level.ADMINISTER)
        return may_answer(question.approvers, user, administers=administers)

    async def _commit(self, question: Question, verdict: Verdict) -> Verdict:
        """The verdict that counts: another process may have been the first."""
        kind, by, reason = _written(verdict)
        async with self._database.transaction() as connection:
            return _read(await approvals.set_verdict(connection, question.reference, kind, by, reason))

    async def _ask(self, opened: _Open, thread: FindThread) -> Thread:
        where, question = await thread(), opened.question
        # An answer to the root of the thread is one to the question.
        self._open[where.root] = opened
        mentions = [one for one in question.approvers if one.startswith("@")]
        text = content_of(question_text(question.text, question.seconds), Kind.WORD, mentions=mentions)
        event_id = await self._side.send(
            where.room_id,
            self._people.names.node_user,
            MESSAGE,
            in_thread(where.root, text),
            transaction_id=f"{question.reference}/question"[:LONGEST_TRANSACTION],
        )
        self._open[event_id] = opened
        return where

    async def _note(self, question: Question, asking: "asyncio.Task[Thread]", text: Text, name: str) -> None:
        """Where nobody could be asked, nobody is told either."""
        if not asking.done() or asking.cancelled() or asking.exception() is not None:
            return
        where = asking.result()
        with suppress(MatrixError):
            await self._side.send(
                where.room_id,
                self._people.names.node_user,
                MESSAGE,
                in_thread(where.root, content_of(text, Kind.WORD)),
                transaction_id=f"{question.reference}/{name}"[:LONGEST_TRANSACTION],
            )


def _written(verdict: Verdict) -> tuple[str, str | None, str | None]:
    match verdict:
        case Approved(by):
            return State.APPROVED.value, by, None
        case Refused(by):
            return State.REFUSED.value, by, None
        case Expired():
            return State.EXPIRED.value, None, None
        case Withdrawn(reason):
            return State.WITHDRAWN.value, None, reason.plain


def _read(row: ApprovalRow) -> Verdict:
    match State(row.verdict):
        case State.APPROVED:
            return Approved(row.decided_by or "")
        case State.REFUSED:
            return Refused(row.decided_by or "")
        case State.EXPIRED:
            return Expired()
        case _:
            return Withdrawn(Text.of(row.reason or ""))


async def _next(opened: _Open, approval: Approval) -> Input:
    deadline = approval.deadline()
    assert deadline is not None, "it waits"
    try:
        async with asyncio.timeout_at(deadline):
            return await opened.answers.get()
    except TimeoutError:
        return Tick()
