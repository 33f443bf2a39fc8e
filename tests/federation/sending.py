"""An outbox, its events, and a clock that only tests advance."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from federation.client.client import FederationClient
from federation.events import Pdu, Template, build
from federation.matrix.room_version import ROOM_VERSIONS
from federation.observer import HomeserverObserver, Outcome, QueueDepth
from federation.outbox.destination import State
from federation.outbox.messages import Timer
from federation.outbox.outbox import Outbox
from federation.rooms.ports import CommittedEvent
from storage.database import Connection, Database
from storage.federation import outbox as table
from storage.rooms.events import EventRow, write_events
from tests.support.neighbourhood import OWN_NAME
from tests.support.postgres import as_another_process
from tests.support.rooms import ALICE, Room, public_room, signer

TIMEOUT = 30.0
VERSION = ROOM_VERSIONS["11"]


def rooms(count: int) -> list[Room]:
    """Return different rooms: in version 12 the id depends on the create event."""
    return [public_room("12", number=number) for number in range(count)]


@dataclass
class Seen(HomeserverObserver):
    """Records the reports of an outbox."""

    ended: list[Outcome] = field(default_factory=list)
    left: list[tuple[str, int]] = field(default_factory=list)
    objections: list[tuple[str, str]] = field(default_factory=list)
    waiting: dict[str, QueueDepth] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def transaction_ended(self, destination: str, outcome: Outcome, pdus: int, edus: int, seconds: float) -> None:
        self.ended.append(outcome)
        self._changed.set()

    def removed_from_queue(self, destination: str, reason: str, count: int) -> None:
        self.left.append((reason, count))
        self._changed.set()

    def state_changed(self, destination: str, state: str) -> None:
        self.states[destination] = state
        self._changed.set()

    def event_refused(self, destination: str, event_id: str, error: str) -> None:
        self.objections.append((event_id, error))
        self._changed.set()

    def queue_depths(self, depths: Sequence[QueueDepth]) -> None:
        self.waiting = {one.destination: one for one in depths}
        self._changed.set()

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append(sentence)
        self._changed.set()

    async def until(self, condition: Any) -> None:
        """Wait for a condition, advancing the clock while the sender is paced."""
        async with asyncio.timeout(TIMEOUT):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()


@dataclass
class Clock:
    """Milliseconds."""

    now: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@dataclass
class Sending:
    database: Database
    outbox: Outbox
    seen: Seen
    clock: Clock

    async def send(self, pdus: Sequence[Pdu], *destinations: str) -> None:
        """Write events and queue rows in one transaction, as the room graph does."""
        async with self.database.transaction() as connection:
            await write(connection, pdus)
            events = committed(pdus, *destinations)
            places = await queue(connection, self.outbox, events, self.clock())
        self.outbox.notify_queued(events, places)

    async def until_failed(self, destination: str, attempts: int = 1) -> None:
        """Wait until so many attempts have failed and the destination backs off."""
        await self.seen.until(
            lambda seen: len(seen.ended) == attempts and seen.states.get(destination) is State.BACKING_OFF
        )

    async def until(self, destination: str, condition: Callable[[], object]) -> None:
        """Time passes whenever the sender has nothing to wait for but that."""
        async with asyncio.timeout(TIMEOUT):
            while not condition():
                if self.seen.states.get(destination) is State.PACED:
                    self.later(destination, 500)
                # Let the sender handle its inputs and the peer its requests.
                await asyncio.sleep(0)

    async def settled(self, destination: str) -> None:
        """Wait until the queue is empty."""
        async with asyncio.timeout(TIMEOUT):
            while await self._waits_for(destination):
                await asyncio.sleep(0.01)

    async def _waits_for(self, destination: str) -> bool:
        async with self.database.transaction(readonly=True) as connection:
            return destination in await table.list_destinations(connection)

    def later(self, destination: str, milliseconds: int) -> None:
        """Advance the clock and trigger the machine's timer."""
        self.clock.now += milliseconds
        self.outbox._senders[destination].receive(Timer())


@contextlib.asynccontextmanager
async def sending(
    database: Database, client: FederationClient, clock: Callable[[], int] | None = None, **how: Any
) -> AsyncIterator[Sending]:
    database = as_another_process(database)
    seen, frozen = Seen(), clock if isinstance(clock, Clock) else Clock()
    outbox = Outbox(OWN_NAME, database, client, now_ms=clock or frozen, observer=seen, jitter=lambda: 0.0, **how)
    await outbox.start()
    try:
        yield Sending(database, outbox, seen, frozen)
    finally:
        await outbox.close()


def says(room: Room, *bodies: str) -> list[Pdu]:
    """Return messages of Alice, which the room does not record."""
    auth = [pdu.event_id for pdu in room.propose_auth(ALICE)]
    previous = room.head[0].event_id
    made = []
    for body in bodies:
        room.now += 1
        template = Template(
            "m.room.message",
            ALICE,
            {"msgtype": "m.text", "body": body},
            room.now,
            room_id=room.room_id,
            prev_events=[previous],
            prev_depths=[room.now],
            auth_events=auth,
        )
        pdu = build(template, room.version, signer("a.example"))
        assert isinstance(pdu, Pdu)
        previous = pdu.event_id
        made.append(pdu)
    return made


def committed(pdus: Sequence[Pdu], *destinations: str) -> list[CommittedEvent]:
    return [CommittedEvent(pdu, VERSION, None, frozenset(destinations)) for pdu in pdus]


async def write(connection: Connection, pdus: Sequence[Pdu]) -> None:
    await write_events(
        connection,
        [
            EventRow(
                pdu.event_id,
                pdu.room_id,
                pdu.type,
                pdu.state_key,
                pdu.sender,
                pdu.depth,
                pdu.origin_server_ts,
                pdu.prev_events,
                pdu.auth_events,
                "accepted",
                None,
                None,
                None,
                pdu.canonical,
            )
            for pdu in pdus
        ],
    )


async def queue(
    connection: Connection, outbox: Outbox, events: Sequence[CommittedEvent], now_ms: int
) -> list[table.QueuedPdu]:
    """Write queue rows as the room graph does, in the transaction that commits the events."""
    rooms = {event.pdu.event_id: event.pdu.room_id for event in events}
    entries = [(to, rooms[event_id], event_id) for to, event_id in outbox.queue_entries(events)]
    return await table.queue_pdus(connection, entries, now_ms)
