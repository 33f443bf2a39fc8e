"""Takes in what the homeserver has not told, and never will: what it had waiting for us when it ended.

Nobody says that it was started again. So it is suspected when it was away, when it comes by another
connection, and when this process begins. Then each room is looked at once: before anything is taken in of it,
so that all of it stays in order; and those of which nothing comes one after the other, a while later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Final

from appservice.missed_events import Event, missed_events
from appservice.received_event import ReceivedEvent
from appservice.received_event import read as read_event
from appservice.service.homeserver_client import HomeserverClient
from appservice.service.known_rooms import KnownRooms
from appservice.service.room_end import pages
from appservice.transaction import Transaction
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from storage.connecting import ConnectionLost
from storage.database import Database
from storage.guest_figures import list_rooms

MOST_ROOMS: Final = 100_000
SETTLED: Final = 10.0
"""Seconds in which what still waits for us has come."""
BY_CONNECTION: Final = 1.0
"""Seconds between two suspicions that only a connection gives: a proxy may use another one each time."""
SWEPT_AGAIN: Final = 300.0
"""Seconds before rooms of which nothing comes are looked at for another connection alone."""
BETWEEN: Final = 0.05
"""Seconds between two of them: nobody waits."""
ROOMS_AT_ONCE: Final = 500

TakeIn = Callable[[str, Transaction], Awaitable[bool]]


class MissedEvents:
    """`take_in` is that of the intake. It runs between `start` and `close`."""

    def __init__(
        self,
        client: HomeserverClient,
        rooms: KnownRooms,
        database: Database,
        take_in: TakeIn,
        *,
        is_ours: Callable[[str], bool],
        now_ms: Callable[[], int],
        report: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._database = database
        self._take_in = take_in
        self._is_ours = is_ours
        self._now_ms = now_ms
        self._report = report
        self._monotonic = monotonic
        self._connection: Hashable = None
        self._suspected_at = monotonic()
        self._swept_at: float | None = None
        self._looked: BoundedCache[str, bool] = BoundedCache(MOST_ROOMS)
        self._to_sweep = asyncio.Event()
        self._sweeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._to_sweep.set()
        self._sweeping = asyncio.create_task(self._sweep_for_ever())

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping

    # -- when it is suspected --

    def suspect(self) -> None:
        """The homeserver was away."""
        self._suspect()
        self._to_sweep.set()

    def comes_by(self, connection: Hashable) -> None:
        """With each transaction."""
        if connection == self._connection:
            return
        is_first, self._connection = self._connection is None, connection
        now = self._monotonic()
        if is_first or now - self._suspected_at < BY_CONNECTION:
            return
        self._suspect()
        if self._swept_at is not None and now - self._swept_at > SWEPT_AGAIN:
            self._to_sweep.set()

    def _suspect(self) -> None:
        self._suspected_at = self._monotonic()
        self._looked = BoundedCache(MOST_ROOMS)

    # -- what is done then --

    async def before(self, transaction: Transaction) -> None:
        """What is missing in the rooms of the transaction, up to it, is taken in."""
        told: dict[str, list[str]] = {}
        for received in transaction.events:
            told.setdefault(received.event.room_id, []).append(received.event.event_id)
        for room_id, event_ids in told.items():
            if self._looked.get(room_id) is None:
                looked = self._looked
                # What cannot be looked at now is not waited for: the rest would not come either.
                # `HomeserverAway` is one of these.
                with suppress(ConnectionLost):
                    await self._take(room_id, await self._missing(room_id, event_ids))
                    looked.put(room_id, True)

    async def _missing(self, room_id: str, before: Collection[str] = ()) -> list[Event]:
        user = await self._rooms.resident(room_id)
        if user is None:
            return []
        seen: list[Event] = []
        told: set[str] = set()
        try:
            async for events, known in pages(self._client, self._database, room_id, user, self._now_ms()):
                seen += events
                told |= set(known)
            joined = [
                member.user_id
                for member in await self._rooms.members(room_id)
                if self._is_ours(member.user_id)
            ]
        except MatrixError:
            return []  # whoever may not look is told nothing either
        return missed_events(seen, told=told, joined=joined, is_ours=self._is_ours, before=before)

    async def _take(self, room_id: str, events: Sequence[Event]) -> None:
        read = [read_event({**event, "room_id": room_id}) for event in events]
        received = tuple(one for one in read if isinstance(one, ReceivedEvent))
        if received:
            await self._take_in(_name(received), Transaction(received))
            self._report(f"{len(received)} events of {room_id} had not come, and were fetched.")

    # -- rooms of which nothing comes --

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._to_sweep.wait()
            self._to_sweep.clear()
            await asyncio.sleep(SETTLED)
            try:
                await self._sweep()
            except (ConnectionLost, MatrixError):
                # It is away, or the intake has too much to do.
                await asyncio.sleep(SETTLED)
                self._to_sweep.set()
            self._swept_at = self._monotonic()

    async def _sweep(self) -> None:
        after = ""
        while True:
            rows = await self._database.look(partial(list_rooms, after=after, limit=ROOMS_AT_ONCE))
            for row in rows:
                if self._looked.get(row.room_id) is None:
                    await self._look_twice(row.room_id)
                    await asyncio.sleep(BETWEEN)
            if len(rows) < ROOMS_AT_ONCE:
                return
            after = rows[-1].room_id

    async def _look_twice(self, room_id: str) -> None:
        """What is still missing after a while does not come by itself."""
        looked = self._looked
        first = _ids(await self._missing(room_id))
        if first:
            await asyncio.sleep(SETTLED)
            again = await self._missing(room_id)
            await self._take(room_id, [event for event in again if event["event_id"] in first])
        looked.put(room_id, True)


def _ids(events: Iterable[Event]) -> set[str]:
    return {event["event_id"] for event in events}


def _name(received: Sequence[ReceivedEvent]) -> str:
    """No homeserver calls a transaction so."""
    return f"missed {sha256(' '.join(one.event.event_id for one in received).encode()).hexdigest()}"
