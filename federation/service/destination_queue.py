"""The queue of one destination in Postgres: what its machine wants done there, all at once or not at all."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from federation.canonical_json import decode
from federation.destination_messages import (
    Backlog,
    Effect,
    Fate,
    Forget,
    Load,
    Loaded,
    Outage,
    Probe,
    Remember,
    Send,
    Skip,
    Survey,
    Surveyed,
)
from federation.edu.making import packed
from federation.outgoing_transaction import body
from federation.passing_edus import PassingEdus
from federation.send_queue import LOAD, EduRef, PduRef
from federation.service.outbox_observer import OutboxObserver
from federation.weighted_cache import WeightedCache
from storage import outages, outbox
from storage.connecting import ConnectionLost
from storage.database import Connection, Database
from storage.outages import OutageRow
from storage.outbox import InFlight, StoredPdu
from storage.saying import Offered

PAUSE = 1.0
"""Seconds before Postgres is tried again, beyond those in which the pool has."""

MOST_UNSETTLED = 200
"""Events that were delivered and are written down all the same."""

Fresh: TypeAlias = WeightedCache[int, StoredPdu]
"""Events by their positions, which all queues share."""

InFlightRefs = tuple[tuple[PduRef, ...], tuple[EduRef, ...]]


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is to be sent. `places` are the events in it, by id."""

    transaction_id: str
    body: bytes = field(repr=False)
    places: dict[str, PduRef]
    edus: int


@dataclass(slots=True)
class Done:
    """What came of the effects: answers for the machine, and what is to be asked of the peer."""

    answers: list[Loaded | Surveyed] = field(default_factory=list)
    transaction: Transaction | None = None
    probes: list[Probe] = field(default_factory=list)
    left: list[tuple[Fate, int]] = field(default_factory=list)


class DestinationQueue:
    def __init__(
        self,
        server_name: str,
        destination: str,
        database: Database,
        observer: OutboxObserver,
        fresh: Fresh | None = None,
    ) -> None:
        """`fresh` holds events that were queued by this process, as far as it remembers them."""
        self._server_name = server_name
        self._destination = destination
        self._database = database
        self._observer = observer
        self._fresh: Fresh = WeightedCache(1) if fresh is None else fresh
        self._number: int | None = None
        self._in_flight: InFlight | None = None
        # Whether a transaction is in flight, and whether none is and nothing is being done about it.
        self._is_sent = False
        self._is_free = False
        # A transaction that whoever queues may write down. It holds until anything else is done here.
        self._offered: str | None = None
        self._begun: InFlight | None = None
        # What was delivered and is still written down, and the last transaction that was answered.
        self._delivered: list[tuple[str, int]] = []
        self._answered: str | None = None
        self._settling = asyncio.Lock()

    @property
    def is_settled(self) -> bool:
        """Nothing is written down that has been delivered."""
        return not self._delivered and not self._settling.locked()

    def offer(self, now_ms: int) -> Offered | None:
        """The next transaction, for whoever writes it down together with what is in it. One at a time, and
        none while one is in flight."""
        if not self._is_free or self._offered is not None:
            return None
        self._offered = _new_id(now_ms)
        return Offered(self._offered, self._answered)

    def begun(self, transaction: InFlight) -> None:
        """It was written down. If something else has been done here since it was offered, what is in it is
        sent in another one, which takes its place."""
        if transaction.transaction_id == self._offered:
            self._begun = transaction

    def done_at_once(self, effects: Sequence[Effect], now_ms: int) -> Done | None:
        """What came of the effects if nothing need be written for them now. None: they are to be carried
        out."""
        begun, in_flight = self._begun, self._in_flight
        match effects:
            case [Send(_, pdus, ()) as send] if begun is not None and _is_of(send, begun):
                # It was written down with what is in it.
                stored = self._remembered(pdus)
                if stored is None:
                    return None
                self._offered = self._begun = None
                self._is_free, self._is_sent = False, True
                self._number, self._in_flight = send.number, begun
                return Done(transaction=self._made(begun, send, stored, []))
            case [Forget(pdus, (), Fate.DELIVERED)] if (
                in_flight is not None and len(self._delivered) + len(pdus) <= MOST_UNSETTLED
            ):
                # What has been delivered may be sent once more after a kill, and is known there then.
                for pdu in pdus:
                    self._fresh.forget(pdu.position)
                    self._delivered.append((pdu.room_id, pdu.position))
                self._answered = in_flight.transaction_id
                self._is_free, self._is_sent = True, False
                return Done(left=[(Fate.DELIVERED, len(pdus))])
        return None

    async def settle(self) -> None:
        """Take out what was delivered, however long Postgres is away meanwhile."""
        async with self._settling:
            while self._delivered and self._answered is not None:
                delivered = tuple(self._delivered)
                try:
                    async with self._database.statements() as connection:
                        await outbox.delete_answered(connection, self._destination, delivered, self._answered)
                except ConnectionLost:
                    await asyncio.sleep(PAUSE)
                else:
                    del self._delivered[: len(delivered)]

    async def restore(self) -> tuple[Outage | None, InFlightRefs | None]:
        """What a process that sent to this server before has left: `Destination`'s arguments."""
        async with self._database.transaction() as connection:
            known = await outages.fetch_outage(connection, self._destination)
            in_flight = await outbox.fetch_transaction(connection, self._destination)
            refs = None if in_flight is None else await self._refs(connection, in_flight)
        if refs is not None:
            self._number, self._in_flight = 0, in_flight
        self._is_sent, self._is_free = refs is not None, refs is None
        return None if known is None else Outage(*known), refs

    async def _refs(self, connection: Connection, in_flight: InFlight) -> InFlightRefs | None:
        rooms = await outbox.fetch_rooms_of_positions(connection, self._destination, in_flight.pdus)
        pdus = tuple(PduRef(position, room_id) for position, room_id in sorted(rooms))
        stored = await outbox.fetch_edus(connection, self._destination, in_flight.edus)
        edus = tuple(EduRef(edu.position) for edu in stored)
        if not pdus and not edus:
            # Nothing in it had to arrive.
            await outbox.delete_transaction(connection, self._destination)
            return None
        return pdus, edus

    async def carry_out(self, effects: Sequence[Effect], passing: PassingEdus, now_ms: int) -> Done:
        """In one transaction of the database, in their order, however long Postgres is away meanwhile."""
        if not effects:
            return Done()
        if any(isinstance(effect, Load | Survey | Skip) for effect in effects):
            # What is read now must not hold what was delivered.
            await self.settle()
        begun, self._offered, self._begun = self._begun, None, None
        # Also while it is being done: what is written here must not meet what is written elsewhere.
        self._is_free = False
        database = self._database
        is_one = (len(effects) == 1 and _is_one_statement(effects[0])) or _is_one_for_another(effects)
        while True:
            try:
                async with database.statements() if is_one else database.transaction() as connection:
                    done = Done()
                    match effects:
                        case [Forget() as landed, Send() as send] if is_one:
                            await self._replace(connection, landed, send, passing, now_ms, done)
                        case [Send() as send] if begun is not None and _is_of(send, begun):
                            self._number, self._in_flight = send.number, begun
                            done.transaction = await self._transaction(connection, send, passing, now_ms)
                        case _:
                            for effect in effects:
                                await self._do(connection, effect, passing, now_ms, done)
            except ConnectionLost as error:
                # Whether it was committed or not: done a second time it comes to the same.
                self._observer.problem("Events wait to be sent, because Postgres is away.", error)
                await asyncio.sleep(PAUSE)
            else:
                self._is_sent = _is_sent_after(effects, is_sent=self._is_sent)
                self._is_free = not self._is_sent
                return done

    async def _do(
        self, connection: Connection, effect: Effect, passing: PassingEdus, now_ms: int, done: Done
    ) -> None:
        to = self._destination
        match effect:
            case Send():
                # Also when it is sent again: what wrote it the first time may not have been committed.
                await outbox.insert_transaction(connection, to, self._started(effect, now_ms))
                done.transaction = await self._transaction(connection, effect, passing, now_ms)
            case Forget(pdus, edus, fate):
                await outbox.delete_edus(connection, to, [edu.position for edu in edus if not edu.ephemeral])
                places = self._forgotten(effect, passing)
                if fate is Fate.STALE:
                    await outbox.delete_pdus(connection, to, places)
                else:
                    await outbox.delete_sent(connection, to, places)
                done.left.append((fate, len(pdus) + len(edus)))
            case Load(None):
                found = await outbox.oldest_edus(connection, to, LOAD)
                done.answers.append(Loaded(None, tuple(found)))
            case Load(str() as room_id):
                found = await outbox.oldest_pdus(connection, to, room_id, LOAD)
                done.answers.append(Loaded(room_id, tuple(found)))
            case Survey():
                rooms = await outbox.survey(connection, to)
                done.answers.append(Surveyed(tuple(Backlog(*room) for room in rooms)))
            case Skip(room_id, keep):
                skipped = await outbox.skip_pdus(connection, to, room_id, keep)
                done.left.append((Fate.STALE, skipped))
            case Remember(None):
                await outages.write_outage(connection, to, None)
            case Remember(Outage(failing_since, failures, retry_at)):
                await outages.write_outage(connection, to, OutageRow(failing_since, failures, retry_at))
            case Probe():
                done.probes.append(effect)

    async def _replace(
        self,
        connection: Connection,
        landed: Forget,
        send: Send,
        passing: PassingEdus,
        now_ms: int,
        done: Done,
    ) -> None:
        """One transaction has been answered, and the next one begins."""
        in_flight = self._started(send, now_ms)
        places = self._forgotten(landed, passing)
        await outbox.replace_sent(connection, self._destination, places, in_flight)
        done.left.append((landed.fate, len(landed.pdus) + len(landed.edus)))
        done.transaction = await self._transaction(connection, send, passing, now_ms)

    def _forgotten(self, landed: Forget, passing: PassingEdus) -> list[tuple[str, int]]:
        """What of it lies in the queue of events."""
        passing.forget(edu for edu in landed.edus if edu.ephemeral)
        for pdu in landed.pdus:
            self._fresh.forget(pdu.position)
        return [(pdu.room_id, pdu.position) for pdu in landed.pdus]

    def _started(self, send: Send, now_ms: int) -> InFlight:
        """What is written down of it."""
        if send.number != self._number or self._in_flight is None:
            transaction_id = _new_id(now_ms)
            positions = [pdu.position for pdu in send.pdus]
            self._in_flight = InFlight(transaction_id, now_ms, positions, _durable(send))
            self._number = send.number
        return self._in_flight

    async def _transaction(
        self, connection: Connection, send: Send, passing: PassingEdus, now_ms: int
    ) -> Transaction:
        in_flight = self._started(send, now_ms)
        pdus = self._remembered(send.pdus) or await outbox.fetch_pdus(
            connection, self._destination, [(pdu.room_id, pdu.position) for pdu in send.pdus]
        )
        stored = await outbox.fetch_edus(connection, self._destination, _durable(send))
        edus = packed(
            [
                *((edu.edu_type, decode(edu.content)) for edu in stored),
                *passing.take((edu for edu in send.edus if edu.ephemeral), now_ms),
            ]
        )
        return self._made(in_flight, send, pdus, edus)

    def _made(
        self,
        in_flight: InFlight,
        send: Send,
        pdus: Sequence[StoredPdu],
        edus: Sequence[Mapping[str, Any]],
    ) -> Transaction:
        refs = {pdu.position: pdu for pdu in send.pdus}
        places = {pdu.event_id: refs[pdu.position] for pdu in pdus}
        content = body(self._server_name, in_flight.origin_server_ts, [pdu.canonical for pdu in pdus], edus)
        return Transaction(in_flight.transaction_id, content, places, len(edus))

    def _remembered(self, wanted: Sequence[PduRef]) -> Sequence[StoredPdu] | None:
        """They are remembered until it is known that they need not be sent again."""
        remembered = []
        for pdu in wanted:
            stored = self._fresh.get(pdu.position)
            if stored is None:
                return None
            remembered.append(stored)
        remembered.sort()
        return remembered


def _new_id(now_ms: int) -> str:
    """Never used again, not even by a database that was restored from a backup."""
    return f"{now_ms}-{secrets.token_hex(8)}"


def _is_of(send: Send, begun: InFlight) -> bool:
    return [pdu.position for pdu in send.pdus] == list(begun.pdus) and not _durable(send)


def _is_sent_after(effects: Sequence[Effect], *, is_sent: bool) -> bool:
    """Whether a transaction is in flight then."""
    for effect in effects:
        match effect:
            case Send():
                is_sent = True
            case Forget(_, _, fate) if fate is not Fate.STALE:
                is_sent = False
    return is_sent


def _durable(send: Send) -> list[int]:
    return [edu.position for edu in send.edus if not edu.ephemeral]


def _is_one_for_another(effects: Sequence[Effect]) -> bool:
    """A transaction that was answered, and the next one: what lies in the queue of EDUs is not touched."""
    match effects:
        case [Forget(_, edus, fate), Send()]:
            return fate is not Fate.STALE and all(edu.ephemeral for edu in edus)
    return False


def _is_one_statement(effect: Effect) -> bool:
    """Or one that writes, and then some that read."""
    match effect:
        case Send():
            return True
        case Forget(_, edus, _):
            return all(edu.ephemeral for edu in edus)
    return False
