"""The state of rooms that contain ghosts, stored so that it can be read without a request to the homeserver.

The intake updates the state in the commit that receives the events. If the stored state of a room is
incomplete, it is fetched first, once: on the first read, after a day, and after an event that changed the
state in a way that the homeserver does not push.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from appservice.intake.received_event import MEMBER, ReceivedEvent, from_bytes, mark
from appservice.intake.state_entries import to_entry, to_event, to_key
from appservice.intake.state_fetcher import FetchState as FetchState
from appservice.intake.state_fetcher import StateFetcher
from federation.events.room_event import Invite, Member, RoomEvent, member_of
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_room_id
from storage.appservice import events, rooms
from storage.appservice.events import lock_registration
from storage.appservice.rooms import CachedEntry, CachedState
from storage.concurrency import SingleFlight
from storage.connect import ConnectionLost
from storage.database import Connection, Database

FetchJoined: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""`GET /joined_rooms` as one of this node's users, who is registered if necessary."""
RoomQuery: TypeAlias = Callable[[Connection], Awaitable[CachedState | None]]

MAX_STATE_AGE: Final = timedelta(hours=24)
"""How long stored state is updated without being fetched again. The homeserver does not push the result of
state resolution between diverged branches."""
LOCAL_CHANGE_TTL: Final = timedelta(minutes=10)
"""How long a change made by this node counts before the homeserver has pushed it."""


class KnownRooms:
    """`is_ours` decides whether a user is a ghost. For a room without known ghosts the joined rooms of
    `node_user` are loaded first, because a new database does not know them. Call `close` at the end.

    Reading methods raise `MatrixError` for a room without ghosts, and `HomeserverUnavailable` if the state
    has to be fetched and cannot be.
    """

    def __init__(
        self,
        database: Database,
        fetch: FetchState,
        *,
        registration: str,
        is_ours: Callable[[str], bool],
        fetch_joined: FetchJoined,
        node_user: str,
    ) -> None:
        self._database = database
        self._registration = registration
        self._is_ours = is_ours
        self._fetch_joined = fetch_joined
        self._node_user = node_user
        self._fetching = StateFetcher(database, fetch, registration=registration, is_ours=is_ours)
        self._loading_joined_rooms: SingleFlight[str, None] = SingleFlight()

    async def close(self) -> None:
        await self._loading_joined_rooms.close()
        await self._fetching.close()

    # -- state --

    async def state(self, room_id: str, type_: str | None = None) -> list[RoomEvent]:
        """Return the current state, or its events of one type."""
        entries = await self._entries(room_id, type_, None)
        return [to_event(room_id, entry) for entry in entries]

    async def state_event(self, room_id: str, type_: str, state_key: str = "") -> RoomEvent | None:
        """Return None also if no ghost is in the room."""
        found = await self._query_state(
            room_id,
            partial(
                rooms.fetch_entry, room_id=room_id, type_=to_key(type_), state_key=to_key(state_key), age=MAX_STATE_AGE
            ),
        )
        return None if not found else to_event(room_id, found[0])

    async def members(self, room_id: str, memberships: Collection[str] = ("join",)) -> list[Member]:
        entries = await self._entries(room_id, MEMBER, memberships)
        return [member_of(to_event(room_id, entry)) for entry in entries]

    async def membership(self, room_id: str, user: str) -> str | None:
        """Return None for a user who was never in the room. A ghost's membership is known even if no ghost is
        in the room."""
        member = await self.state_event(room_id, MEMBER, user)
        if member is not None:
            return member_of(member).membership
        if not self._is_ours(user) or "\0" in room_id:
            return None
        return await self._database.read(partial(rooms.fetch_local_membership, room_id=room_id, user=to_key(user)))

    # -- ghosts --

    async def joined_rooms(self, user: str) -> list[str]:
        """`user` is a ghost."""
        await self._ensure_joined_rooms_known(user)
        return await self._database.read(partial(rooms.list_joined, user=to_key(user)))

    async def invites(self, user: str) -> list[Invite]:
        """Return a ghost's open invites."""
        stored = await self._database.read(partial(rooms.list_invites, user=to_key(user)))
        return [
            Invite(
                row.room_id,
                user,
                row.sender,
                row.event_id,
                tuple(orjson.loads(row.invite_state)) if row.invite_state is not None else (),
            )
            for row in stored
        ]

    async def resident(self, room_id: str) -> str | None:
        """Return a ghost in the room, to act as when asking the homeserver about it."""
        if "\0" in room_id:
            return None
        found = await self._fetching.residents(room_id)
        if not found and await self._ensure_joined_rooms_known(self._node_user):
            found = await self._fetching.residents(room_id)
        return found[0] if found else None

    async def set_joined_rooms(self, user: str, joined: Sequence[str], *, change: int = 0) -> None:
        """Store all rooms that a ghost is in, so that they need not be loaded. Events received after `change`
        take precedence."""
        found = [room_id for room_id in joined if is_room_id(room_id)]
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.replace_rooms_of_user(connection, user, found, change)

    # -- events --

    async def event(self, event_id: str) -> RoomEvent | None:
        """Return the event as the homeserver pushed it, within a week."""
        if "\0" in event_id:
            return None  # no event id contains NUL
        stored = await self._database.read(partial(events.fetch_events, event_ids=[event_id]))
        if event_id not in stored:
            return None
        row = stored[event_id]
        return from_bytes(row.event, is_redacted=row.is_redacted).event

    async def knows_event(self, event_id: str) -> bool:
        if "\0" in event_id:
            return False
        return bool(await self._database.read(partial(events.fetch_known_ids, event_ids=[event_id])))

    async def sent(self, sender: str, room_id: str, key: str) -> str | None:
        """Return the id of the event with this transaction key, if the homeserver has pushed it."""
        return await self._database.read(partial(events.fetch_sent, room_id=room_id, mark=mark(key, sender)))

    # -- changes that the homeserver has not pushed --

    async def record_change(
        self, room_id: str, type_: str, state_key: str, sender: str, content: Mapping[str, Any], event_id: str, ts: int
    ) -> None:
        """Record a ghost's change before the homeserver pushes it, so that reads see it."""
        event = RoomEvent(event_id, room_id, sender, type_, content, ts, state_key)
        entry = to_entry(ReceivedEvent(event), self._is_ours)
        async with self._database.autocommit() as connection:
            await rooms.record_change(connection, self._registration, entry, LOCAL_CHANGE_TTL)

    async def invalidate(self, room_id: str) -> None:
        """The stored state contradicts the homeserver: fetch it again on the next read."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.mark_incomplete(connection, room_id)

    async def delete_room(self, room_id: str) -> None:
        """Delete the room until the homeserver pushes an event of a ghost in it."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.delete_room(connection, room_id)

    # -- internals --

    async def _entries(self, room_id: str, type_: str | None, memberships: Collection[str] | None) -> list[CachedEntry]:
        key = None if type_ is None else to_key(type_)
        found = await self._query_state(
            room_id,
            partial(rooms.fetch_entries, room_id=room_id, type_=key, memberships=memberships, age=MAX_STATE_AGE),
        )
        if found is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        return found

    async def _query_state(self, room_id: str, query: RoomQuery) -> list[CachedEntry] | None:
        """Return what `query` finds in the current state. None if no ghost is in the room."""
        if "\0" in room_id:
            return None  # no room id contains NUL, and Postgres rejects text with NUL
        found = await self._database.read(query)
        completeness, entries = found or ("partial", [])
        if completeness == "complete":
            return entries
        if await self.resident(room_id) is None:
            return None
        try:
            if not await self._fetching.ensure_complete(room_id, MAX_STATE_AGE):
                return None
        except ConnectionLost:
            # It was stored up all the time, and a homeserver that does not answer changes nothing.
            if completeness == "stale":
                return entries
            raise
        found = await self._database.read(query)
        return None if found is None else found[1]

    async def _ensure_joined_rooms_known(self, user: str) -> bool:
        """Return whether they had to be loaded."""
        if await self._database.read(partial(rooms.are_rooms_loaded, user=user)):
            return False
        await self._loading_joined_rooms.run(user, partial(self._load_joined_rooms, user))
        return True

    async def _load_joined_rooms(self, user: str) -> None:
        change = await self._database.read(rooms.fetch_last_change)
        await self.set_joined_rooms(user, await self._fetch_joined(user), change=change)
