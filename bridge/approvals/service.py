"""Sends questions for approval to rooms and awaits the verdict, which is committed before it is returned.

A question belongs to a thread. Answers are reactions and replies to the question or to the root of the
thread, and messages in the thread. The connector that uses this service reads the room and passes people's
events to `handle`.
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
    Expired,
    Input,
    NotPermitted,
    Reaction,
    Refused,
    Reply,
    Start,
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
    """A question for approval. `reference` is its unique id on this node: repeated after a kill, it results
    in the same message. `subject` names in a word what is decided about. `approvers` are users and servers;
    without them people with the permission `administer` decide."""

    reference: str
    text: Text
    subject: str
    seconds: float
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thread:
    """The thread of a question."""

    room_id: str
    root: str


FindThread = Callable[[], Awaitable[Thread]]
"""Waits until the thread exists. It is not called for a question that has a verdict."""


@dataclass(eq=False, slots=True)
class _OpenQuestion:
    question: Question
    answers: "asyncio.Queue[Input]" = field(default_factory=asyncio.Queue)


class Approvals:
    """Sends questions for approval and returns their verdicts."""

    def __init__(
        self, backend: MatrixBackend, database: Database, people: PeopleSettings, *, now_ms: Callable[[], int]
    ) -> None:
        self._backend = backend
        self._database = database
        self._people = people
        self._now_ms = now_ms
        # The open questions by the events to which answers may relate.
        self._open: dict[str, _OpenQuestion] = {}

    async def decide(self, question: Question, thread: FindThread, withdrawn: "asyncio.Future[Text]") -> Verdict:
        """Send the question and return its committed verdict.

        The time for an answer begins with the first call, even if the thread does not exist yet. A repeated
        call with the same reference has the same deadline and returns the same verdict. When the question
        becomes obsolete, the caller sets the result of `withdrawn` to the reason for people.
        """
        now_ms = self._now_ms()
        until = now_ms + int(question.seconds * 1000)
        async with self._database.transaction() as connection:
            row = await approvals.insert_approval(connection, question.reference, now_ms, until)
        if row.verdict is not None:
            return _verdict_of(row)
        loop = asyncio.get_running_loop()
        open_question = _OpenQuestion(question)
        approval = Approval((row.until - now_ms) / 1000)
        [effect] = approval.receive(Start(), loop.time())
        assert isinstance(effect, Ask), "a new approval begins with the question"

        def withdraw(reason: "asyncio.Future[Text]") -> None:
            if not reason.cancelled():
                open_question.answers.put_nowait(Withdraw(reason.result()))

        withdrawn.add_done_callback(withdraw)
        sending = asyncio.create_task(self._send_question(open_question, thread))
        try:
            while True:
                input_ = await _next_input(open_question, approval)
                for effect in approval.receive(input_, loop.time()):
                    if isinstance(effect, NotPermitted):
                        notice = not_permitted(effect.user, question.subject)
                        await self._send_notice(question, sending, notice, effect.user)
                    elif not isinstance(effect, Ask):
                        verdict = await self._commit(question, effect)
                        await self._send_notice(question, sending, verdict_text(verdict), "ending")
                        return verdict
        finally:
            withdrawn.remove_done_callback(withdraw)
            sending.cancel()
            related = [event_id for event_id, found in self._open.items() if found is open_question]
            for event_id in related:
                del self._open[event_id]

    def handle(self, event: RoomEvent) -> bool:
        """Handle a possible answer. Return whether it relates to an open question of this process."""
        related = event.content.get("m.relates_to")
        target = related.get("event_id") if isinstance(related, dict) else None
        open_question = self._open.get(target) if isinstance(target, str) else None
        if open_question is None or not isinstance(related, dict) or MARK in event.content:
            return False
        allowed = self._may_answer(open_question.question, event.sender)
        key, body = related.get("key"), event.content.get("body")
        if event.type == REACTION and isinstance(key, str):
            open_question.answers.put_nowait(Reaction(event.sender, key, allowed))
        elif event.type == MESSAGE and isinstance(body, str):
            open_question.answers.put_nowait(Reply(event.sender, body, allowed))
        return True

    def _may_answer(self, question: Question, user: str) -> bool:
        administers = self._people.rights.of(user).level.includes(Level.ADMINISTER)
        return may_answer(question.approvers, user, administers=administers)

    async def _commit(self, question: Question, verdict: Verdict) -> Verdict:
        """Commit the verdict and return the effective one: another process may have committed one before."""
        kind, by, reason = _columns(verdict)
        async with self._database.transaction() as connection:
            row = await approvals.set_verdict(connection, question.reference, kind, by, reason)
        return _verdict_of(row)

    async def _send_question(self, open_question: _OpenQuestion, find_thread: FindThread) -> Thread:
        thread, question = await find_thread(), open_question.question
        # An answer to the root of the thread is an answer to the question.
        self._open[thread.root] = open_question
        mentions = [approver for approver in question.approvers if approver.startswith("@")]
        text = content_of(question_text(question.text, question.seconds), Kind.NOTICE, mentions=mentions)
        event_id = await self._backend.send(
            thread.room_id,
            self._people.names.node_user,
            MESSAGE,
            in_thread(thread.root, text),
            transaction_id=f"{question.reference}/question"[:LONGEST_TRANSACTION],
        )
        self._open[event_id] = open_question
        return thread

    async def _send_notice(self, question: Question, sending: "asyncio.Task[Thread]", text: Text, name: str) -> None:
        """Send a notice to the question's thread, unless the question could not be sent."""
        if not sending.done() or sending.cancelled() or sending.exception() is not None:
            return
        thread = sending.result()
        with suppress(MatrixError):
            await self._backend.send(
                thread.room_id,
                self._people.names.node_user,
                MESSAGE,
                in_thread(thread.root, content_of(text, Kind.NOTICE)),
                transaction_id=f"{question.reference}/{name}"[:LONGEST_TRANSACTION],
            )


def _columns(verdict: Verdict) -> tuple[str, str | None, str | None]:
    match verdict:
        case Approved(by):
            return State.APPROVED.value, by, None
        case Refused(by):
            return State.REFUSED.value, by, None
        case Expired():
            return State.EXPIRED.value, None, None
        case Withdrawn(reason):
            return State.WITHDRAWN.value, None, reason.plain


def _verdict_of(row: ApprovalRow) -> Verdict:
    match State(row.verdict):
        case State.APPROVED:
            return Approved(row.decided_by or "")
        case State.REFUSED:
            return Refused(row.decided_by or "")
        case State.EXPIRED:
            return Expired()
        case _:
            return Withdrawn(Text.of(row.reason or ""))


async def _next_input(open_question: _OpenQuestion, approval: Approval) -> Input:
    deadline = approval.deadline()
    assert deadline is not None, "a waiting approval has a deadline"
    try:
        async with asyncio.timeout_at(deadline):
            return await open_question.answers.get()
    except TimeoutError:
        return Tick()
