"""Writes down what servers do to each other.

What changes something is written before it is answered, a transaction in the commit of its own events;
everything else a moment later, many rows at once.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from federation.client.requests import SEND, Content, RequestTarget
from federation.events import EventId
from federation.events.received import ReceiveResult
from federation.peers import audit
from federation.peers.acts import OTHER, TRANSACTION, Act, Recorded, act_of
from federation.peers.audit import AuditBuffer, Direction, Ending, Entry, Named
from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch, insert_entries, prune, search

PAUSE: Final = 0.5
"""Seconds for which rows are gathered; so much may be missing after the process was killed."""
FORGOTTEN_AT_ONCE: Final = 10_000
MOST_FOUND: Final = 100_000

_TRANSACTION: Final = Direction.IN.value, TRANSACTION.name
_DONE: Final = Ending.DONE.value

Report = Callable[[str, BaseException | None], None]


class AuditTrail:
    """`report` is told when something could not be written, with the error.

    `start()` before the first act, `close()` after the last.
    """

    def __init__(
        self,
        database: Database,
        *,
        now_ms: Callable[[], int],
        report: Report = lambda sentence, error: None,
        buffer: AuditBuffer | None = None,
        pause: float = PAUSE,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._report = report
        self._buffer = AuditBuffer() if buffer is None else buffer
        self._pause = pause
        self._noted = asyncio.Event()
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._is_failing = False

    def start(self) -> None:
        self._writer = asyncio.create_task(self._write_for_ever())

    async def close(self) -> None:
        """Write what is left."""
        self._closing.set()
        self._noted.set()
        if self._writer is not None:
            await self._writer
        await self._write_noted()
        if self._buffer:
            self._report(f"{len(self._buffer)} rows of the audit are lost: the database took none.", None)

    @property
    def lost(self) -> int:
        """Acts that were too many to be kept. The audit says so too, at its time."""
        return self._buffer.lost

    # -- what others asked of us --

    async def obeyed(self, peer: str | None, act: Act, named: Named) -> None:
        """A request was done. Returns when it may be answered."""
        if act.recorded in (Recorded.NOT, Recorded.BY_ITSELF):
            return
        entry = self._entry(peer, Direction.IN, act, Ending.DONE, named)
        if act.recorded is Recorded.AT_ONCE:
            await self._write([entry])
        else:
            self._note(entry)

    def refused(self, peer: str | None, act: Act, named: Named, ending: Ending, detail: str) -> None:
        self._note(self._entry(peer, Direction.IN, act, ending, named, detail))

    def transaction(
        self,
        origin: str,
        transaction_id: str,
        pdus: Sequence[Any],
        edus: Sequence[Any],
        results: Mapping[EventId, ReceiveResult],
    ) -> AuditRow:
        """A transaction is being taken in: what is to be written in its commit."""
        named = audit.named_by_transaction(transaction_id, pdus)
        detail = audit.transaction_detail(results.values(), len(edus))
        who, room_id, subject = audit.cut(origin), named.room_id, named.subject
        return AuditRow(_moment(self._now_ms()), who, *_TRANSACTION, None, room_id, subject, _DONE, detail)

    # -- what we asked of others --

    async def request_ended(
        self,
        peer: str,
        method: str,
        target: RequestTarget,
        content: Content,
        problem: BaseException | None,
    ) -> None:
        """The client's word on each request, before whoever made it has the answer."""
        act = act_of(method, target.template) or OTHER
        if target.template == SEND and "%" not in target.uri:
            # What is sent most often names nothing else.
            named = audit.named_by_transaction(target.uri.rpartition("/")[2], ())
        else:
            places = audit.places_in(target.template, target.uri)
            query = audit.query_in(target.uri)
            named = audit.named(act, places, query, content if isinstance(content, Mapping) else None)
        ending, detail = audit.ending_of_problem(problem)
        entry = self._entry(peer, Direction.OUT, act, ending, named, detail)
        if act.recorded is Recorded.AT_ONCE and ending is Ending.DONE:
            try:
                await self._write([entry])
            except Exception:
                # The other server has done it, and whoever asked it to must learn that all the same.
                self._note(entry)
        else:
            self._note(entry)

    # -- what is done in other protocols --

    def note(self, entry: Entry) -> None:
        """Whoever speaks one has decided what is to be written. It is, a moment later and with others."""
        self._note(entry)

    # -- reading and forgetting --

    async def search(self, wanted: AuditSearch, limit: int) -> list[AuditRow]:
        """The newest first. What was noted just now may still be missing."""
        async with self._database.transaction(readonly=True) as connection:
            return await search(connection, wanted, min(limit, MOST_FOUND))

    async def prune(self, days: float) -> int:
        """Forget what is older; how many rows that were."""
        before = _moment(self._now_ms()) - timedelta(days=days)
        total = 0
        while True:
            async with self._database.transaction() as connection:
                forgotten = await prune(connection, before, FORGOTTEN_AT_ONCE)
            total += forgotten
            if forgotten < FORGOTTEN_AT_ONCE:
                return total

    # -- writing --

    def _entry(
        self,
        peer: str | None,
        direction: Direction,
        act: Act,
        ending: Ending,
        named: Named,
        detail: str | None = None,
    ) -> Entry:
        now_ms, who = self._now_ms(), audit.cut(peer)
        return Entry(now_ms, who, direction, act.name, ending, named, audit.cut_detail(detail))

    def _note(self, entry: Entry) -> None:
        self._buffer.note(entry, time.monotonic())
        self._noted.set()

    async def _write(self, entries: Sequence[Entry]) -> None:
        async with self._database.transaction() as connection:
            await insert_entries(connection, [_row(entry) for entry in entries])

    async def _write_for_ever(self) -> None:
        while not self._closing.is_set():
            await self._noted.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause):
                    await self._closing.wait()
            self._noted.clear()
            await self._write_noted()

    async def _write_noted(self) -> None:
        """Nothing is lost when it fails: it is tried again after the next pause. When the connection broke in
        the very moment of the commit, all of it may be there twice."""
        batch = self._buffer.take()
        entries = batch.to_be_written()
        if not entries:
            return
        try:
            await self._write(entries)
        except Exception as error:
            self._buffer.give_back(batch)
            self._noted.set()
            if not self._is_failing:
                self._report("The audit could not be written; it is kept in memory for now.", error)
            self._is_failing = True
        else:
            self._is_failing = False


def _moment(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC)


def _row(entry: Entry) -> AuditRow:
    named = entry.named
    return AuditRow(
        _moment(entry.at_ms),
        entry.peer,
        entry.direction.value,
        entry.act,
        named.user_id,
        named.room_id,
        named.subject,
        entry.ending.value,
        entry.detail,
    )
