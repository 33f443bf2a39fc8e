"""The queue of one destination in Postgres: reads queued items, builds transactions from them and deletes
delivered ones.

Nothing is written before a transaction is sent: its id is derived from the rows that it contains. So each
statement here may be repeated, whether or not the previous execution had an effect.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from federation.caches import WeightedCache
from federation.matrix.canonical_json import decode
from federation.observer import HomeserverObserver
from federation.outbox.lossy_edus import LossyEdus
from federation.outbox.messages import Backlog, LoadResult, Outage, Send, SurveyResult
from federation.outbox.send_queue import LOAD, EduRef, Lane, PduRef
from federation.outbox.transaction_body import encode_body, transaction_id_of
from federation.transactions.outgoing_edus import pack_edus
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation import outbox as outages
from storage.federation.outbox import OutageRow, StoredEdu, StoredPdu

T = TypeVar("T")

RETRY_PAUSE: Final = 1.0
"""Seconds before the next attempt to reach Postgres, in addition to the attempts of the pool."""
MAX_ROWS: Final = 1_000
"""Number of rows that one statement deletes."""

RecentPdus: TypeAlias = WeightedCache[int, StoredPdu]
"""Cache of events by position, shared by all queues: events that this process has just queued need not be
read."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction to be sent. `refs` are the events in it, by id."""

    transaction_id: str
    body: bytes = field(repr=False)
    refs: dict[str, PduRef]
    edus: int


@dataclass(frozen=True, slots=True)
class FirstAttempt:
    """When the transaction in flight was first sent. `number` is that of the `Send` effect;
    `transaction_id` is None until the transaction was built."""

    number: int
    at_ms: int
    transaction_id: str | None = None


class DestinationQueue:
    def __init__(
        self,
        server_name: str,
        destination: str,
        database: Database,
        epoch: str,
        recent: RecentPdus,
        observer: HomeserverObserver,
    ) -> None:
        self._server_name = server_name
        self._destination = destination
        self._database = database
        self._epoch = epoch
        self._recent = recent
        self._observer = observer
        self._removed_pdus: list[tuple[str, int]] = []
        self._removed_edus: list[int] = []
        self.first_attempt: FirstAttempt | None = None

    # -- queued items --

    async def fetch_outage(self) -> Outage | None:
        """Return the stored outage of the destination, if it was failing before a restart."""
        row = await self._retry(lambda connection: outages.fetch_outage(connection, self._destination))
        return None if row is None else Outage(*row)

    async def store_outage(self, outage: Outage | None) -> None:
        row = None
        if outage is not None:
            row = OutageRow(outage.failing_since, outage.failures, outage.retry_at)
        await self._retry(lambda connection: outages.write_outage(connection, self._destination, row))

    async def survey(self) -> SurveyResult:
        await self.flush()
        rooms = await self._retry(lambda connection: outbox.fetch_backlogs(connection, self._destination))
        return SurveyResult(tuple(Backlog(*room) for room in rooms))

    async def load(self, lane: Lane) -> LoadResult:
        """Return the oldest queued events of a room, or the oldest EDUs."""
        await self.flush()

        async def oldest(connection: Connection) -> list[int]:
            if lane is None:
                return await outbox.list_oldest_edus(connection, self._destination, LOAD)
            return await outbox.list_oldest_pdus(connection, self._destination, lane, LOAD)

        return LoadResult(lane, tuple(await self._retry(oldest)))

    async def skip(self, room_id: str, keep: int) -> int:
        """Delete the room's events before that position; return how many were deleted."""
        return await self._retry(lambda connection: outbox.skip_pdus(connection, self._destination, room_id, keep))

    # -- transactions --

    async def build_transaction(self, send: Send, lossy: LossyEdus, now_ms: int) -> Transaction:
        """Build the transaction. The same rows give the same id at any time and in any process. A
        transaction without rows has a random id, which stays the same while the transaction is in flight.
        """
        if self.first_attempt is None or self.first_attempt.number != send.number:
            self.first_attempt = FirstAttempt(send.number, now_ms)
        durable = [edu.position for edu in send.edus if not edu.ephemeral]
        pdus = self._cached(send.pdus)
        if pdus is None:
            places = [(pdu.room_id, pdu.position) for pdu in send.pdus]
            pdus = await self._retry(lambda connection: outbox.fetch_pdus(connection, self._destination, places))
        edus: list[StoredEdu] = []
        if durable:
            edus = await self._retry(lambda connection: outbox.fetch_edus(connection, self._destination, durable))
        if pdus or edus:
            transaction_id = transaction_id_of(self._epoch, ((pdu.position, pdu.event_id) for pdu in pdus), edus)
        else:
            transaction_id = self.first_attempt.transaction_id or secrets.token_hex(16)
        self.first_attempt = FirstAttempt(send.number, self.first_attempt.at_ms, transaction_id)
        refs = {pdu.position: pdu for pdu in send.pdus}
        contents = pack_edus(
            [
                *((edu.edu_type, decode(edu.content)) for edu in edus),
                *lossy.take((edu for edu in send.edus if edu.ephemeral), now_ms),
            ]
        )
        return Transaction(
            transaction_id,
            encode_body(self._server_name, self.first_attempt.at_ms, [pdu.canonical for pdu in pdus], contents),
            {pdu.event_id: refs[pdu.position] for pdu in pdus},
            len(contents),
        )

    def _cached(self, wanted: Iterable[PduRef]) -> list[StoredPdu] | None:
        """Return the events if all of them are cached, else None."""
        found = []
        for pdu in wanted:
            stored = self._recent.get(pdu.position)
            if stored is None:
                return None
            found.append(stored)
        return sorted(found)

    # -- removal --

    @property
    def is_flushed(self) -> bool:
        """Whether all removed items are deleted from Postgres."""
        return not self._removed_pdus and not self._removed_edus

    def remove(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """Mark items that need not be sent again. `flush` deletes them in batches."""
        for pdu in pdus:
            self._recent.pop(pdu.position, None)
            self._removed_pdus.append((pdu.room_id, pdu.position))
        self._removed_edus += (edu.position for edu in edus if not edu.ephemeral)

    async def flush(self) -> None:
        """Delete removed items from Postgres. If the process is killed before, they are sent once more."""
        while not self.is_flushed:
            pdus, edus = self._removed_pdus[:MAX_ROWS], self._removed_edus[:MAX_ROWS]

            async def delete(
                connection: Connection, pdus: Sequence[tuple[str, int]] = pdus, edus: Sequence[int] = edus
            ) -> None:
                await outbox.delete_pdus(connection, self._destination, pdus)
                await outbox.delete_edus(connection, self._destination, edus)

            await self._retry(delete)
            del self._removed_pdus[: len(pdus)], self._removed_edus[: len(edus)]

    async def _retry(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work`, retrying until Postgres is available."""
        while True:
            try:
                async with self._database.autocommit() as connection:
                    return await work(connection)
            except ConnectionLost as error:
                self._observer.problem("Sending is delayed, because Postgres is unavailable.", error)
                await asyncio.sleep(RETRY_PAUSE)
