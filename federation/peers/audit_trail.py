"""Writes the audit of requests between servers.

Requests that change something are written before the response, transactions in the commit of their events.
All others are written in batches a short time later.
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
from federation.peers.actions import OTHER, TRANSACTION, Action, AuditTiming, action_of
from federation.peers.audit import AuditBuffer, AuditEntry, AuditOutcome, Direction, Identifiers
from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch, insert_entries, prune, search

FLUSH_INTERVAL: Final = 0.5
"""Seconds for which entries are collected. Entries of that time may be missing after the process was
killed."""
PRUNE_BATCH_SIZE: Final = 10_000
MAX_RESULTS: Final = 100_000

_TRANSACTION: Final = Direction.IN.value, TRANSACTION.name
_DONE: Final = AuditOutcome.DONE.value

Report = Callable[[str, BaseException | None], None]


class AuditTrail:
    """Records requests between servers, and searches the records.

    `report` is called when entries could not be written, with the error. Call `start()` before the first
    request and `close()` after the last.
    """

    def __init__(
        self,
        database: Database,
        *,
        now_ms: Callable[[], int],
        report: Report = lambda sentence, error: None,
        buffer: AuditBuffer | None = None,
        flush_interval: float = FLUSH_INTERVAL,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._report = report
        self._buffer = AuditBuffer() if buffer is None else buffer
        self._flush_interval = flush_interval
        self._pending = asyncio.Event()
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._is_failing = False

    def start(self) -> None:
        self._writer = asyncio.create_task(self._flush_periodically())

    async def close(self) -> None:
        """Write the buffered entries."""
        self._closing.set()
        self._pending.set()
        if self._writer is not None:
            await self._writer
        await self._flush()
        if self._buffer:
            self._report(f"Lost {len(self._buffer)} audit entries: the database was unavailable.", None)

    @property
    def lost(self) -> int:
        """Entries that were dropped because the buffer was full. The audit has an entry with their number."""
        return self._buffer.lost

    # -- requests of other servers --

    async def record_success(self, peer: str | None, action: Action, identifiers: Identifiers) -> None:
        """Record a successful request. Returns when the response may be sent."""
        if action.recorded in (AuditTiming.NEVER, AuditTiming.WITH_COMMIT):
            return
        entry = self._entry(peer, Direction.IN, action, AuditOutcome.DONE, identifiers)
        if action.recorded is AuditTiming.IMMEDIATE:
            await self._write([entry])
        else:
            self._add(entry)

    def record_refusal(
        self, peer: str | None, action: Action, identifiers: Identifiers, outcome: AuditOutcome, detail: str
    ) -> None:
        self._add(self._entry(peer, Direction.IN, action, outcome, identifiers, detail))

    def transaction_row(
        self,
        origin: str,
        transaction_id: str,
        pdus: Sequence[Any],
        edus: Sequence[Any],
        results: Mapping[EventId, ReceiveResult],
    ) -> AuditRow:
        """The row of a received transaction, to be written in its commit."""
        identifiers = audit.transaction_identifiers(transaction_id, pdus)
        detail = audit.transaction_detail(results.values(), len(edus))
        peer_name, room_id, subject = audit.truncate(origin), identifiers.room_id, identifiers.subject
        return AuditRow(_datetime(self._now_ms()), peer_name, *_TRANSACTION, None, room_id, subject, _DONE, detail)

    # -- requests to other servers --

    async def request_ended(
        self, peer: str, method: str, target: RequestTarget, content: Content, problem: BaseException | None
    ) -> None:
        """Record a request to another server, before its response is returned to the caller."""
        action = action_of(method, target.template) or OTHER
        if target.template == SEND and "%" not in target.uri:
            # A transaction, the most frequent request, has no other identifiers.
            identifiers = audit.transaction_identifiers(target.uri.rpartition("/")[2], ())
        else:
            parameters = audit.path_parameters(target.template, target.uri)
            query = audit.query_parameters(target.uri)
            identifiers = audit.identifiers_of(
                action, parameters, query, content if isinstance(content, Mapping) else None
            )
        outcome, detail = audit.outcome_of_error(problem)
        entry = self._entry(peer, Direction.OUT, action, outcome, identifiers, detail)
        if action.recorded is AuditTiming.IMMEDIATE and outcome is AuditOutcome.DONE:
            try:
                await self._write([entry])
            except Exception:
                # The other server has accepted the request, so it must not fail because of the audit.
                self._add(entry)
        else:
            self._add(entry)

    # -- requests of other protocols --

    def record(self, entry: AuditEntry) -> None:
        """Record an entry of another protocol, deferred."""
        self._add(entry)

    # -- searching and pruning --

    async def search(self, wanted: AuditSearch, limit: int) -> list[AuditRow]:
        """Search the written entries, newest first. Buffered entries are not found."""
        async with self._database.transaction(readonly=True) as connection:
            return await search(connection, wanted, min(limit, MAX_RESULTS))

    async def prune(self, days: float) -> int:
        """Delete entries that are older than so many days, and return their number."""
        before = _datetime(self._now_ms()) - timedelta(days=days)
        total = 0
        while True:
            async with self._database.transaction() as connection:
                deleted = await prune(connection, before, PRUNE_BATCH_SIZE)
            total += deleted
            if deleted < PRUNE_BATCH_SIZE:
                return total

    # -- writing --

    def _entry(
        self,
        peer: str | None,
        direction: Direction,
        action: Action,
        outcome: AuditOutcome,
        identifiers: Identifiers,
        detail: str | None = None,
    ) -> AuditEntry:
        now_ms, peer_name = self._now_ms(), audit.truncate(peer)
        return AuditEntry(
            now_ms, peer_name, direction, action.name, outcome, identifiers, audit.truncate_detail(detail)
        )

    def _add(self, entry: AuditEntry) -> None:
        self._buffer.add(entry, time.monotonic())
        self._pending.set()

    async def _write(self, entries: Sequence[AuditEntry]) -> None:
        async with self._database.transaction() as connection:
            await insert_entries(connection, [_row(entry) for entry in entries])

    async def _flush_periodically(self) -> None:
        while not self._closing.is_set():
            await self._pending.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._flush_interval):
                    await self._closing.wait()
            self._pending.clear()
            await self._flush()

    async def _flush(self) -> None:
        """Write the buffered entries. If that fails, they are written after the next interval. If the
        connection was lost during the commit, they may be written twice."""
        batch = self._buffer.take()
        entries = batch.entries_to_write()
        if not entries:
            return
        try:
            await self._write(entries)
        except Exception as error:
            self._buffer.give_back(batch)
            self._pending.set()
            if not self._is_failing:
                self._report("Failed to write the audit. Its entries are buffered and will be written later.", error)
            self._is_failing = True
        else:
            self._is_failing = False


def _datetime(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC)


def _row(entry: AuditEntry) -> AuditRow:
    identifiers = entry.identifiers
    return AuditRow(
        _datetime(entry.at_ms),
        entry.peer,
        entry.direction.value,
        entry.action,
        identifiers.user_id,
        identifiers.room_id,
        identifiers.subject,
        entry.outcome.value,
        entry.detail,
    )
