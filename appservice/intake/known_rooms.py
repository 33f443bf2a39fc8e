"""The rooms in which ghosts are, as far as this node knows them without asking the homeserver.

The intake keeps their state, in the commit in which it takes in what the homeserver tells. Of a room that is
not known whole the state is fetched first, once: when somebody asks for the first time, after a day, and
when something has happened since of which the homeserver does not tell what became of the state.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from appservice.intake.received_event import MEMBER, ReceivedEvent, from_bytes, mark
from appservice.intake.room_fetching import FetchState as FetchState
from appservice.intake.room_fetching import RoomFetching
from appservice.intake.state_entries import to_entry, to_event, to_key
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
"""`GET /joined_rooms` as one of our users, who is made if need be."""
Look: TypeAlias = Callable[[Connection], Awaitable[CachedState | None]]

BELIEVED: Final = timedelta(hours=24)
"""For how long a room's state is kept up without being fetched again: what becomes of it when histories that
had parted come together is not told."""
AHEAD: Final = timedelta(minutes=10)
"""For how long what we did is believed before the homeserver tells it."""


class KnownRooms:
    """`is_ours` says of a user whether it is a ghost. Of a room in which no ghost is known to be it is looked
    whether `node_user` is there: a database that is new does not know. It is closed at the end.

    What reads raises `MatrixError` for a room in which nobody of ours is, and `HomeserverAway` where the
    state has to be fetched."""

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
        self._fetching = RoomFetching(database, fetch, registration=registration, is_ours=is_ours)
        self._adopting: SingleFlight[str, None] = SingleFlight()

    async def close(self) -> None:
        await self._adopting.close()
        await self._fetching.close()

    # -- state --

    async def state(self, room_id: str, type_: str | None = None) -> list[RoomEvent]:
        """The current state, or what it has of one type."""
        entries = await self._entries(room_id, type_, None)
        return [to_event(room_id, entry) for entry in entries]

    async def state_event(self, room_id: str, type_: str, state_key: str = "") -> RoomEvent | None:
        """None also when nobody of ours is there."""
        known = await self._known(
            room_id,
            partial(
                rooms.fetch_entry,
                room_id=room_id,
                type_=to_key(type_),
                state_key=to_key(state_key),
                age=BELIEVED,
            ),
        )
        return None if not known else to_event(room_id, known[0])

    async def members(self, room_id: str, memberships: Collection[str] = ("join",)) -> list[Member]:
        entries = await self._entries(room_id, MEMBER, memberships)
        return [member_of(to_event(room_id, entry)) for entry in entries]

    async def membership(self, room_id: str, user: str) -> str | None:
        """None for who has never been there. Of a ghost it is known also where nobody of ours is."""
        member = await self.state_event(room_id, MEMBER, user)
        if member is not None:
            return member_of(member).membership
        if not self._is_ours(user) or "\0" in room_id:
            return None
        return await self._database.read(
            partial(rooms.fetch_local_membership, room_id=room_id, user=to_key(user))
        )

    # -- ghosts --

    async def joined_rooms(self, user: str) -> list[str]:
        """Of a ghost."""
        await self._ensure_adopted(user)
        return await self._database.read(partial(rooms.list_joined, user=to_key(user)))

    async def invites(self, user: str) -> list[Invite]:
        """Of a ghost, those that have not been answered."""
        kept = await self._database.read(partial(rooms.list_invites, user=to_key(user)))
        return [
            Invite(
                one.room_id,
                user,
                one.sender,
                one.event_id,
                tuple(orjson.loads(one.invite_state)) if one.invite_state is not None else (),
            )
            for one in kept
        ]

    async def resident(self, room_id: str) -> str | None:
        """A ghost who is there, as whom to look."""
        if "\0" in room_id:
            return None
        found = await self._fetching.residents(room_id)
        if not found and await self._ensure_adopted(self._node_user):
            found = await self._fetching.residents(room_id)
        return found[0] if found else None

    async def adopt(self, user: str, joined: Sequence[str], *, change: int = 0) -> None:
        """These are all rooms in which a ghost is: it need not be asked for. What has been heard of it since
        this change is newer."""
        found = [room_id for room_id in joined if is_room_id(room_id)]
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.replace_rooms_of_user(connection, user, found, change)

    # -- events --

    async def event(self, event_id: str) -> RoomEvent | None:
        """As the homeserver told it, within a week."""
        if "\0" in event_id:
            return None  # no event is called so either
        kept = await self._database.read(partial(events.fetch_events, event_ids=[event_id]))
        if event_id not in kept:
            return None
        one = kept[event_id]
        return from_bytes(one.event, is_redacted=one.is_redacted).event

    async def knows_event(self, event_id: str) -> bool:
        if "\0" in event_id:
            return False
        return bool(await self._database.read(partial(events.fetch_known_ids, event_ids=[event_id])))

    async def sent(self, sender: str, room_id: str, key: str) -> str | None:
        """The event that bears this key of a transaction, if the homeserver has told it."""
        return await self._database.read(partial(events.fetch_sent, room_id=room_id, mark=mark(key, sender)))

    # -- what we learn otherwise --

    async def noted(
        self,
        room_id: str,
        type_: str,
        state_key: str,
        sender: str,
        content: Mapping[str, Any],
        event_id: str,
        ts: int,
    ) -> None:
        """What a ghost did, before the homeserver tells it: it is read from now on."""
        event = RoomEvent(event_id, room_id, sender, type_, content, ts, state_key)
        entry = to_entry(ReceivedEvent(event), self._is_ours)
        async with self._database.autocommit() as connection:
            await rooms.record_change(connection, self._registration, entry, AHEAD)

    async def doubt(self, room_id: str) -> None:
        """The homeserver does not think what is thought here: the state is fetched when it is needed next."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.mark_incomplete(connection, room_id)

    async def forget(self, room_id: str) -> None:
        """Until the homeserver tells something of a ghost there."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.delete_room(connection, room_id)

    # -- inside --

    async def _entries(
        self, room_id: str, type_: str | None, memberships: Collection[str] | None
    ) -> list[CachedEntry]:
        key = None if type_ is None else to_key(type_)
        known = await self._known(
            room_id,
            partial(rooms.fetch_entries, room_id=room_id, type_=key, memberships=memberships, age=BELIEVED),
        )
        if known is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        return known

    async def _known(self, room_id: str, look: Look) -> list[CachedEntry] | None:
        """What is found in the state of the room as it is now. None when nobody of ours is there."""
        if "\0" in room_id:
            return None  # no room is called so, and Postgres takes no text with NUL
        known = await self._database.read(look)
        completeness, entries = known or ("partial", [])
        if completeness == "complete":
            return entries
        if await self.resident(room_id) is None:
            return None
        try:
            if not await self._fetching.make_whole(room_id, BELIEVED):
                return None
        except ConnectionLost:
            # It was kept up all the time, and a homeserver that does not answer changes nothing.
            if completeness == "stale":
                return entries
            raise
        known = await self._database.read(look)
        return None if known is None else known[1]

    async def _ensure_adopted(self, user: str) -> bool:
        """Whether it was not before."""
        if await self._database.read(partial(rooms.are_rooms_loaded, user=user)):
            return False
        await self._adopting.run(user, partial(self._adopt, user))
        return True

    async def _adopt(self, user: str) -> None:
        change = await self._database.read(rooms.fetch_last_change)
        await self.adopt(user, await self._fetch_joined(user), change=change)
