"""Which events of a room the homeserver has not told, and never will.

A homeserver that is started again forgets what it had waiting for its application services: Synapse writes
down how far it has come before it has sent it. What is missing still stands in the room.

Takes in what the homeserver has not told, and never will: what it had waiting for us when it ended.

Nobody says that it was started again. So it is suspected when it was away, when it comes by another
connection, and when this process begins. Then each room is looked at once: before anything is taken in of it,
so that all of it stays in order; and those of which nothing comes one after the other, a while later. Then
the homeserver is asked for the invites of each ghost too.
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
from appservice.intake.room_fetching import pages
from appservice.intake.transaction import Transaction
from federation.matrix.errors import MatrixError
from storage.appservice.rooms import list_rooms
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.federation.users import list_users

Event = Mapping[str, Any]
"""As clients get it."""

INVITES_ALONE: Final[Mapping[str, Any]] = {
    "presence": {"not_types": ["*"]},
    "account_data": {"not_types": ["*"]},
    "room": {
        "timeline": {"limit": 1, "not_types": ["*"]},
        "state": {"lazy_load_members": True, "not_types": ["*"]},
        "ephemeral": {"not_types": ["*"]},
        "account_data": {"not_types": ["*"]},
    },
}
"""The filter of a `GET /sync` that is sent for the invites in its answer. To Synapse an invite is in a room,
so that a filter without any rooms would leave it out."""
_LEFT: Final = frozenset({"leave", "ban"})


def missed_events(
    newest_first: Sequence[Event],
    *,
    told: Collection[str],
    joined: Collection[str],
    is_ours: Callable[[str], bool],
    before: Collection[str] = (),
) -> list[Event]:
    """The oldest first. `newest_first` is the end of the room, `told` are those of it that the homeserver has
    told, `joined` those of ours who are in the room now. `before`: what is being told right now; what comes
    after that is still to be told.

    Nothing is missing that is older than everything told: of that nobody of ours was to be told. Nor is what
    happened while none of ours was there.
    """
    there = set(joined)
    untold: list[Event] = []
    sure = 0
    is_due = not before
    for event in newest_first:
        event_id = event["event_id"]
        membership = _membership_of_ours(event, is_ours)
        if event_id in before:
            # Whatever is not told and newer waits behind it.
            untold, sure, is_due = [], 0, True
        elif event_id in told:
            sure = len(untold)
        elif is_due and (there or membership is not None):
            untold.append(event)
        _go_back(there, event, membership)
    return untold[:sure][::-1]


def invites_in(synced: Mapping[str, Any], user: str, now_ms: int) -> Iterator[Event]:
    """The invites of a user of ours in the answer to its `GET /sync`, as the homeserver would have pushed
    them. Clients are shown no id of an invite, so it gets one here."""
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
                    "event_id": _made_up_id(room_id, user, now_ms),
                    "origin_server_ts": now_ms,
                    **invite,
                    "room_id": room_id,
                    "unsigned": {"invite_room_state": [one for one in shown if one is not invite]},
                }
                break


def _made_up_id(room_id: str, user: str, now_ms: int) -> str:
    """Another one each time: who is invited once more is invited anew."""
    digest = sha256(f"missed invite {room_id} {user} {now_ms}".encode(errors="replace")).digest()
    return f"${urlsafe_b64encode(digest).decode().rstrip('=')}"


def _membership_of_ours(event: Event, is_ours: Callable[[str], bool]) -> object:
    user = event.get("state_key")
    if event.get("type") != MEMBER or not isinstance(user, str) or not is_ours(user):
        return None
    return event["content"].get("membership")


def _go_back(there: set[str], event: Event, membership: object) -> None:
    """Who was there before it."""
    if membership is None:
        return
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    was_there = isinstance(before, Mapping) and before.get("membership") == "join"
    if membership == "join" and not was_there:
        there.discard(event["state_key"])
    elif membership in _LEFT and was_there:
        there.add(event["state_key"])


MOST_ROOMS: Final = 100_000
LOOKED_WITHIN: Final = 20.0
"""Seconds for which a transaction waits until the homeserver has said what is missing before it. Synapse
gives it a minute."""
SETTLED: Final = 10.0
"""Seconds in which what still waits for us has come."""
BY_CONNECTION: Final = 1.0
"""Seconds between two suspicions that only a connection gives: a proxy may use another one each time."""
SWEPT_AGAIN: Final = 300.0
"""Seconds before rooms of which nothing comes are looked at for another connection alone."""
BETWEEN: Final = 0.05
"""Seconds between two of them: nobody waits."""
ROOMS_AT_ONCE: Final = 500
GHOSTS_AT_ONCE: Final = 500

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
        self._looked: LRUCache[str, bool] = LRUCache(MOST_ROOMS)
        self._to_sweep = asyncio.Event()
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        self._to_sweep.set()
        self._tasks.supervise("missed events", self._sweep_when_suspected)

    async def close(self) -> None:
        await self._tasks.close()

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
        self._looked = LRUCache(MOST_ROOMS)

    # -- what is done then --

    async def before(self, transaction: Transaction) -> None:
        """What is missing in the rooms of the transaction, up to it, is taken in."""
        told: dict[str, list[str]] = {}
        for received in transaction.events:
            told.setdefault(received.event.room_id, []).append(received.event.event_id)
        # What cannot be looked at now is not waited for: the rest would not come either. `HomeserverAway` is
        # one of these.
        with suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(LOOKED_WITHIN):
                for room_id, event_ids in told.items():
                    if self._looked.get(room_id) is None:
                        looked = self._looked
                        await self._take(room_id, await self._missing(room_id, event_ids))
                        looked[room_id] = True

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
        count = await self._take_all({**event, "room_id": room_id} for event in events)
        if count:
            self._report(f"{count} events of {room_id} had not come, and were fetched.")

    async def _take_all(self, events: Iterable[Event]) -> int:
        """How many they were."""
        read = [read_event(event) for event in events]
        received = tuple(one for one in read if isinstance(one, ReceivedEvent))
        if received:
            await self._take_in(_name(received), Transaction(received))
        return len(received)

    # -- rooms of which nothing comes --

    async def _sweep_when_suspected(self) -> None:
        await self._to_sweep.wait()
        await asyncio.sleep(SETTLED)
        self._to_sweep.clear()
        try:
            await self._sweep()
            await self._sweep_invites()
        except (ConnectionLost, MatrixError):
            # It is away, or the intake has too much to do.
            self._to_sweep.set()
        except BaseException:
            self._to_sweep.set()
            raise
        self._swept_at = self._monotonic()

    async def _sweep(self) -> None:
        after = ""
        while True:
            rows = await self._database.read(partial(list_rooms, after=after, limit=ROOMS_AT_ONCE))
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
        looked[room_id] = True

    # -- invites --

    async def _sweep_invites(self) -> None:
        after = ""
        while True:
            users = await self._database.read(partial(list_users, after=after, limit=GHOSTS_AT_ONCE))
            for user in users:
                await self._look_for_invites(user)
                await asyncio.sleep(BETWEEN)
            if len(users) < GHOSTS_AT_ONCE:
                return
            after = users[-1]

    async def _look_for_invites(self, user: str) -> None:
        """As with rooms, twice."""
        first = await self._missing_invites(user)
        if not first:
            return
        await asyncio.sleep(SETTLED)
        again = await self._missing_invites(user)
        count = await self._take_all(again[room_id] for room_id in first.keys() & again.keys())
        if count:
            self._report(f"{count} invites of {user} had not come, and were fetched.")

    async def _missing_invites(self, user: str) -> dict[str, Event]:
        """By their rooms."""
        query = {"filter": orjson.dumps(INVITES_ALONE).decode(), "set_presence": "offline", "timeout": "0"}
        try:
            synced = await self._client.ask(Method.GET, Path.v3.sync, user=user, query=query)
        except MatrixError:
            return {}  # whoever may not look is told nothing either
        told = {invite.room_id for invite in await self._rooms.invites(user)}
        found = {event["room_id"]: event for event in invites_in(synced, user, self._now_ms())}
        return {room_id: event for room_id, event in found.items() if room_id not in told}


def _ids(events: Iterable[Event]) -> set[str]:
    return {event["event_id"] for event in events}


def _name(received: Sequence[ReceivedEvent]) -> str:
    """No homeserver calls a transaction so."""
    return f"missed {sha256(' '.join(one.event.event_id for one in received).encode()).hexdigest()}"
