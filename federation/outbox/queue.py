"""The queue of one destination in Postgres: what waits in it, the transactions that are made of it, and the
deletion of what was delivered.

Nothing is written before a transaction is sent: its id is made from the rows that it carries. So every
statement here may be carried out again, in whatever state the one before it was lost.
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
from federation.transactions.edu_making import packed
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation import outbox as outages
from storage.federation.outbox import OutageRow, StoredEdu, StoredPdu

T = TypeVar("T")

PAUSE: Final = 1.0
"""Seconds before Postgres is tried again, beyond those for which the pool tries."""
MOST_AT_ONCE: Final = 1_000
"""Rows that one statement deletes."""

Fresh: TypeAlias = WeightedCache[int, StoredPdu]
"""Events by their positions, which all queues share: what this process has just queued need not be read."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is to be sent. `places` are the events in it, by id."""

    transaction_id: str
    body: bytes = field(repr=False)
    places: dict[str, PduRef]
    edus: int


@dataclass(frozen=True, slots=True)
class FirstSent:
    """Of the transaction that is in flight: `number` is the machine's. `transaction_id` is None until it has
    been made."""

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

    # -- what waits --

    async def outage(self) -> Outage | None:
        """What is remembered of the destination from before a restart."""
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
        """The oldest of a room, or of the EDUs."""
        await self.settle()

        async def oldest(connection: Connection) -> list[int]:
            if lane is None:
                return await outbox.list_oldest_edus(connection, self._destination, LOAD)
            return await outbox.list_oldest_pdus(connection, self._destination, lane, LOAD)

        return Loaded(lane, tuple(await self._run(oldest)))

    async def skip(self, room_id: str, keep: int) -> int:
        """Delete what is older than that position; how many there were."""
        return await self._run(
            lambda connection: outbox.skip_pdus(connection, self._destination, room_id, keep)
        )

    # -- what is sent --

    async def transaction(self, send: Send, passing: PassingEdus, now_ms: int) -> Transaction:
        """The same for the same rows, whenever and by whichever process it is made. What is in no queue has
        a random id, which is the same as long as the transaction is in flight."""
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
        contents = packed(
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
        """None: not all of them are."""
        found = []
        for pdu in wanted:
            stored = self._fresh.get(pdu.position)
            if stored is None:
                return None
            found.append(stored)
        return sorted(found)

    # -- what was delivered --

    @property
    def is_settled(self) -> bool:
        """Nothing is left to be deleted."""
        return not self._delivered_pdus and not self._delivered_edus

    def forget(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """They need not be sent again. `settle` deletes them, many at once."""
        for pdu in pdus:
            self._fresh.pop(pdu.position, None)
            self._delivered_pdus.append((pdu.room_id, pdu.position))
        self._delivered_edus += (edu.position for edu in edus if not edu.ephemeral)

    async def settle(self) -> None:
        """Delete what was delivered. After a kill it would be sent once more."""
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
        """However long Postgres is away meanwhile."""
        while True:
            try:
                async with self._database.autocommit() as connection:
                    return await work(connection)
            except ConnectionLost as error:
                self._observer.problem("Events wait to be sent, because Postgres is away.", error)
                await asyncio.sleep(PAUSE)
