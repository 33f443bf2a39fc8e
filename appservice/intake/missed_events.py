"""Fetches events that the homeserver failed to push and never will.

A homeserver that restarts loses its queue for application services: Synapse records how far it has come
before it has sent the events. The missing events are still in the room.

A restart is not announced. So it is suspected after the homeserver was unavailable, when it uses another
connection, and when this process starts. Then each room is checked once: before one of its events is
received, so that events stay in order; rooms without new events are checked one after another, a little
later. Then the invites of each ghost are fetched too.
"""

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final

import orjson
from cachetools import LRUCache
from mautrix.api import Method, Path

from appservice.homeserver.client import HomeserverClient
from appservice.intake.known_rooms import KnownRooms
from appservice.intake.received_event import MEMBER, ReceivedEvent
from appservice.intake.received_event import read as read_event
from appservice.intake.state_fetcher import timeline_pages
from appservice.intake.transaction import Transaction
from federation.matrix.errors import MatrixError
from storage.appservice.rooms import list_rooms
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.federation.users import list_users

Event = Mapping[str, Any]
"""In the format that clients receive."""

INVITES_ONLY_FILTER: Final[Mapping[str, Any]] = {
    "presence": {"not_types": ["*"]},
    "account_data": {"not_types": ["*"]},
    "room": {
        "timeline": {"limit": 1, "not_types": ["*"]},
        "state": {"lazy_load_members": True, "not_types": ["*"]},
        "ephemeral": {"not_types": ["*"]},
        "account_data": {"not_types": ["*"]},
    },
}
"""The filter of a `GET /sync` that is only made for its invites. Synapse counts an invite as part of a room,
so a filter without any rooms would exclude it."""
_LEFT: Final = frozenset({"leave", "ban"})


def missed_events(
    newest_first: Sequence[Event],
    *,
    pushed: Collection[str],
    joined: Collection[str],
    is_ours: Callable[[str], bool],
    before: Collection[str] = (),
) -> list[Event]:
    """Return the missing events, oldest first. `newest_first` is the end of the room's timeline, `pushed` are
    the ids in it that the homeserver has pushed, `joined` the ghosts in the room now. `before` are the ids
    that the homeserver is pushing right now; newer events will still be pushed.

    Events older than every pushed event are not missing: the homeserver had no reason to push them. The same
    holds for events from times when no ghost was in the room.
    """
    joined_before = set(joined)
    missing: list[Event] = []
    confirmed = 0
    is_due = not before
    for event in newest_first:
        event_id = event["event_id"]
        membership = _ghost_membership(event, is_ours)
        if event_id in before:
            # Newer events that are not pushed yet are queued behind this one.
            missing, confirmed, is_due = [], 0, True
        elif event_id in pushed:
            confirmed = len(missing)
        elif is_due and (joined_before or membership is not None):
            missing.append(event)
        _step_back(joined_before, event, membership)
    return missing[:confirmed][::-1]


def invites_in(synced: Mapping[str, Any], user: str, now_ms: int) -> Iterator[Event]:
    """Yield a ghost's invites in the response to its `GET /sync`, in the form in which the homeserver would
    have pushed them. Clients receive no id of an invite, so one is generated here."""
    rooms = synced.get("rooms")
    invited = rooms.get("invite") if isinstance(rooms, Mapping) else None
    for room_id, room in invited.items() if isinstance(invited, Mapping) else ():
        state = room.get("invite_state") if isinstance(room, Mapping) else None
        events = state.get("events") if isinstance(state, Mapping) else None
        shown = [one for one in events if isinstance(one, Mapping)] if isinstance(events, list) else []
        for invite in shown:
            content = invite.get("content")
            is_invite = isinstance(content, Mapping) and content.get("membership") == "invite"
            if is_invite and invite.get("type") == MEMBER and invite.get("state_key") == user:
                yield {
                    "event_id": _generated_id(room_id, user, now_ms),
                    "origin_server_ts": now_ms,
                    **invite,
                    "room_id": room_id,
                    "unsigned": {"invite_room_state": [one for one in shown if one is not invite]},
                }
                break


def _generated_id(room_id: str, user: str, now_ms: int) -> str:
    """Different each time, because a repeated invite is a new invite."""
    digest = sha256(f"missed invite {room_id} {user} {now_ms}".encode(errors="replace")).digest()
    return f"${urlsafe_b64encode(digest).decode().rstrip('=')}"


def _ghost_membership(event: Event, is_ours: Callable[[str], bool]) -> object:
    user = event.get("state_key")
    if event.get("type") != MEMBER or not isinstance(user, str) or not is_ours(user):
        return None
    return event["content"].get("membership")


def _step_back(joined_before: set[str], event: Event, membership: object) -> None:
    """Update the set of joined ghosts to what it was before the event."""
    if membership is None:
        return
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    was_joined = isinstance(before, Mapping) and before.get("membership") == "join"
    if membership == "join" and not was_joined:
        joined_before.discard(event["state_key"])
    elif membership in _LEFT and was_joined:
        joined_before.add(event["state_key"])


MAX_ROOMS: Final = 100_000
CHECK_TIMEOUT: Final = 20.0
"""Seconds that a transaction waits for the homeserver to return the events before it. Synapse waits a minute
for a transaction."""
SETTLE_TIME: Final = 10.0
"""Seconds in which events that are still queued arrive by themselves."""
MIN_CONNECTION_INTERVAL: Final = 1.0
"""Minimum seconds between two suspicions raised by a new connection: a reverse proxy may use another one each
time."""
SWEEP_INTERVAL: Final = 300.0
"""Minimum seconds between two sweeps of all rooms that only a new connection causes."""
PAUSE: Final = 0.05
"""Seconds between two rooms or ghosts: a sweep is not urgent."""
ROOMS_PER_QUERY: Final = 500
GHOSTS_PER_QUERY: Final = 500

ReceiveTransaction = Callable[[str, Transaction], Awaitable[bool]]


class MissedEvents:
    """`receive` is the intake's. It runs between `start` and `close`."""

    def __init__(
        self,
        client: HomeserverClient,
        rooms: KnownRooms,
        database: Database,
        receive: ReceiveTransaction,
        *,
        is_ours: Callable[[str], bool],
        now_ms: Callable[[], int],
        report: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._database = database
        self._receive = receive
        self._is_ours = is_ours
        self._now_ms = now_ms
        self._report = report
        self._monotonic = monotonic
        self._connection: Hashable = None
        self._suspected_at = monotonic()
        self._swept_at: float | None = None
        self._checked_rooms: LRUCache[str, bool] = LRUCache(MAX_ROOMS)
        self._to_sweep = asyncio.Event()
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        self._to_sweep.set()
        self._tasks.supervise("missed events", self._sweep_when_suspected)

    async def close(self) -> None:
        await self._tasks.close()

    # -- suspicions --

    def suspect(self) -> None:
        """The homeserver was unavailable."""
        self._suspect()
        self._to_sweep.set()

    def connection_used(self, connection: Hashable) -> None:
        """Called with each transaction's connection."""
        if connection == self._connection:
            return
        is_first, self._connection = self._connection is None, connection
        now = self._monotonic()
        if is_first or now - self._suspected_at < MIN_CONNECTION_INTERVAL:
            return
        self._suspect()
        if self._swept_at is not None and now - self._swept_at > SWEEP_INTERVAL:
            self._to_sweep.set()

    def _suspect(self) -> None:
        self._suspected_at = self._monotonic()
        self._checked_rooms = LRUCache(MAX_ROOMS)

    # -- checks --

    async def fetch_before(self, transaction: Transaction) -> None:
        """Receive the missing events of the transaction's rooms that precede it."""
        pushed: dict[str, list[str]] = {}
        for received in transaction.events:
            pushed.setdefault(received.event.room_id, []).append(received.event.event_id)
        # Do not wait for an unavailable homeserver: nothing else would be received either.
        # `HomeserverUnavailable` is a `ConnectionLost`.
        with suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(CHECK_TIMEOUT):
                for room_id, event_ids in pushed.items():
                    if self._checked_rooms.get(room_id) is None:
                        checked = self._checked_rooms
                        await self._receive_missing(room_id, await self._missing(room_id, event_ids))
                        checked[room_id] = True

    async def _missing(self, room_id: str, before: Collection[str] = ()) -> list[Event]:
        user = await self._rooms.resident(room_id)
        if user is None:
            return []
        seen: list[Event] = []
        pushed: set[str] = set()
        try:
            async for events, known in timeline_pages(self._client, self._database, room_id, user, self._now_ms()):
                seen += events
                pushed |= set(known)
            joined = [member.user_id for member in await self._rooms.members(room_id) if self._is_ours(member.user_id)]
        except MatrixError:
            return []  # the homeserver pushes nothing to users who may not read the room
        return missed_events(seen, pushed=pushed, joined=joined, is_ours=self._is_ours, before=before)

    async def _receive_missing(self, room_id: str, events: Sequence[Event]) -> None:
        count = await self._receive_all({**event, "room_id": room_id} for event in events)
        if count:
            self._report(f"The homeserver had not pushed {count} events of {room_id}; they were fetched.")

    async def _receive_all(self, events: Iterable[Event]) -> int:
        """Return the number of events."""
        read = [read_event(event) for event in events]
        received = tuple(one for one in read if isinstance(one, ReceivedEvent))
        if received:
            await self._receive(_transaction_id(received), Transaction(received))
        return len(received)

    # -- rooms without new events --

    async def _sweep_when_suspected(self) -> None:
        await self._to_sweep.wait()
        await asyncio.sleep(SETTLE_TIME)
        self._to_sweep.clear()
        try:
            await self._sweep()
            await self._sweep_invites()
        except (ConnectionLost, MatrixError):
            # The homeserver is unavailable, or the intake is overloaded.
            self._to_sweep.set()
        except BaseException:
            self._to_sweep.set()
            raise
        self._swept_at = self._monotonic()

    async def _sweep(self) -> None:
        after = ""
        while True:
            rows = await self._database.read(partial(list_rooms, after=after, limit=ROOMS_PER_QUERY))
            for row in rows:
                if self._checked_rooms.get(row.room_id) is None:
                    await self._check_twice(row.room_id)
                    await asyncio.sleep(PAUSE)
            if len(rows) < ROOMS_PER_QUERY:
                return
            after = rows[-1].room_id

    async def _check_twice(self, room_id: str) -> None:
        """An event that is still missing after a while will not arrive by itself."""
        checked = self._checked_rooms
        first = _ids(await self._missing(room_id))
        if first:
            await asyncio.sleep(SETTLE_TIME)
            again = await self._missing(room_id)
            await self._receive_missing(room_id, [event for event in again if event["event_id"] in first])
        checked[room_id] = True

    # -- invites --

    async def _sweep_invites(self) -> None:
        after = ""
        while True:
            users = await self._database.read(partial(list_users, after=after, limit=GHOSTS_PER_QUERY))
            for user in users:
                await self._check_invites(user)
                await asyncio.sleep(PAUSE)
            if len(users) < GHOSTS_PER_QUERY:
                return
            after = users[-1]

    async def _check_invites(self, user: str) -> None:
        """As with rooms, twice."""
        first = await self._missing_invites(user)
        if not first:
            return
        await asyncio.sleep(SETTLE_TIME)
        again = await self._missing_invites(user)
        count = await self._receive_all(again[room_id] for room_id in first.keys() & again.keys())
        if count:
            self._report(f"The homeserver had not pushed {count} invites of {user}; they were fetched.")

    async def _missing_invites(self, user: str) -> dict[str, Event]:
        """By room id."""
        query = {"filter": orjson.dumps(INVITES_ONLY_FILTER).decode(), "set_presence": "offline", "timeout": "0"}
        try:
            synced = await self._client.request(Method.GET, Path.v3.sync, user=user, query=query)
        except MatrixError:
            return {}  # the homeserver pushes nothing to users who may not read the room
        pushed = {invite.room_id for invite in await self._rooms.invites(user)}
        found = {event["room_id"]: event for event in invites_in(synced, user, self._now_ms())}
        return {room_id: event for room_id, event in found.items() if room_id not in pushed}


def _ids(events: Iterable[Event]) -> set[str]:
    return {event["event_id"] for event in events}


def _transaction_id(received: Sequence[ReceivedEvent]) -> str:
    """An id that no homeserver uses."""
    return f"missed {sha256(' '.join(one.event.event_id for one in received).encode()).hexdigest()}"
