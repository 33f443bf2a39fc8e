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
from federation.outbox.lossy_edus import PassingEdus
from federation.outbox.messages import Backlog, Loaded, Outage, Send, Surveyed
from federation.outbox.send_queue import LOAD, EduRef, Lane, PduRef
from federation.outbox.transaction_body import body, id_of
from federation.transactions.outgoing_edus import pack_edus
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation import outbox as outages
from storage.federation.outbox import OutageRow, StoredEdu, StoredPdu

T = TypeVar("T")

PAUSE: Final = 1.0
"""Seconds before the next attempt to reach Postgres, in addition to the attempts of the pool."""
MOST_AT_ONCE: Final = 1_000
"""Number of rows that one statement deletes."""

Fresh: TypeAlias = WeightedCache[int, StoredPdu]
"""Cache of events by position, shared by all queues: events that this process has just queued need not be
read."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction to be sent. `refs` are the events in it, by id."""

    transaction_id: str
    body: bytes = field(repr=False)
    places: dict[str, PduRef]
    edus: int


@dataclass(frozen=True, slots=True)
class FirstSent:
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
        fresh: Fresh,
        observer: HomeserverObserver,
    ) -> None:
        self._server_name = server_name
        self._destination = destination
        self._database = database
        self._epoch = epoch
        self._fresh = fresh
        self._observer = observer
        self._delivered_pdus: list[tuple[str, int]] = []
        self._delivered_edus: list[int] = []
        self.first_sent: FirstSent | None = None

    # -- queued items --

    async def outage(self) -> Outage | None:
        """Return the stored outage of the destination, if it was failing before a restart."""
        row = await self._run(lambda connection: outages.fetch_outage(connection, self._destination))
        return None if row is None else Outage(*row)

    async def remember(self, outage: Outage | None) -> None:
        row = None
        if outage is not None:
            row = OutageRow(outage.failing_since, outage.failures, outage.retry_at)
        await self._run(lambda connection: outages.write_outage(connection, self._destination, row))

    async def survey(self) -> Surveyed:
        await self.settle()
        rooms = await self._run(lambda connection: outbox.fetch_backlogs(connection, self._destination))
        return Surveyed(tuple(Backlog(*room) for room in rooms))

    async def load(self, lane: Lane) -> Loaded:
        """Return the oldest queued events of a room, or the oldest EDUs."""
        await self.settle()

        async def oldest(connection: Connection) -> list[int]:
            if lane is None:
                return await outbox.list_oldest_edus(connection, self._destination, LOAD)
            return await outbox.list_oldest_pdus(connection, self._destination, lane, LOAD)

        return Loaded(lane, tuple(await self._run(oldest)))

    async def skip(self, room_id: str, keep: int) -> int:
        """Delete the room's events before that position; return how many were deleted."""
        return await self._run(
            lambda connection: outbox.skip_pdus(connection, self._destination, room_id, keep)
        )

    # -- transactions --

    async def transaction(self, send: Send, passing: PassingEdus, now_ms: int) -> Transaction:
        """Build the transaction. The same rows give the same id at any time and in any process. A
        transaction without rows has a random id, which stays the same while the transaction is in flight.
        """
        if self.first_sent is None or self.first_sent.number != send.number:
            self.first_sent = FirstSent(send.number, now_ms)
        durable = [edu.position for edu in send.edus if not edu.ephemeral]
        pdus = self._remembered(send.pdus)
        if pdus is None:
            places = [(pdu.room_id, pdu.position) for pdu in send.pdus]
            pdus = await self._run(
                lambda connection: outbox.fetch_pdus(connection, self._destination, places)
            )
        edus: list[StoredEdu] = []
        if durable:
            edus = await self._run(
                lambda connection: outbox.fetch_edus(connection, self._destination, durable)
            )
        if pdus or edus:
            transaction_id = id_of(self._epoch, ((pdu.position, pdu.event_id) for pdu in pdus), edus)
        else:
            transaction_id = self.first_sent.transaction_id or secrets.token_hex(16)
        self.first_sent = FirstSent(send.number, self.first_sent.at_ms, transaction_id)
        refs = {pdu.position: pdu for pdu in send.pdus}
        contents = pack_edus(
            [
                *((edu.edu_type, decode(edu.content)) for edu in edus),
                *passing.take((edu for edu in send.edus if edu.ephemeral), now_ms),
            ]
        )
        return Transaction(
            transaction_id,
            body(self._server_name, self.first_sent.at_ms, [pdu.canonical for pdu in pdus], contents),
            {pdu.event_id: refs[pdu.position] for pdu in pdus},
            len(contents),
        )

    def _remembered(self, wanted: Iterable[PduRef]) -> list[StoredPdu] | None:
        """Return the events if all of them are cached, else None."""
        found = []
        for pdu in wanted:
            stored = self._fresh.get(pdu.position)
            if stored is None:
                return None
            found.append(stored)
        return sorted(found)

    # -- removal --

    @property
    def is_settled(self) -> bool:
        """Whether all removed items are deleted from Postgres."""
        return not self._delivered_pdus and not self._delivered_edus

    def forget(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """Mark items that need not be sent again. `flush` deletes them in batches."""
        for pdu in pdus:
            self._fresh.pop(pdu.position, None)
            self._delivered_pdus.append((pdu.room_id, pdu.position))
        self._delivered_edus += (edu.position for edu in edus if not edu.ephemeral)

    async def settle(self) -> None:
        """Delete removed items from Postgres. If the process is killed before, they are sent once more."""
        while not self.is_settled:
            pdus, edus = self._delivered_pdus[:MOST_AT_ONCE], self._delivered_edus[:MOST_AT_ONCE]

            async def delete(
                connection: Connection,
                pdus: Sequence[tuple[str, int]] = pdus,
                edus: Sequence[int] = edus,
            ) -> None:
                await outbox.delete_pdus(connection, self._destination, pdus)
                await outbox.delete_edus(connection, self._destination, edus)

            await self._run(delete)
            del self._delivered_pdus[: len(pdus)], self._delivered_edus[: len(edus)]

    async def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work`, retrying until Postgres is available."""
        while True:
            try:
                async with self._database.autocommit() as connection:
                    return await work(connection)
            except ConnectionLost as error:
                self._observer.problem("Sending is delayed, because Postgres is unavailable.", error)
                await asyncio.sleep(PAUSE)
