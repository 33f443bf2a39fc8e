"""The whole state of a room, fetched from the homeserver when what it has told so far is not enough.

It may be told more while it answers, and it may be told late. So what has come since the fetch began stays:
it is at least as new as what was fetched, or what is newer follows it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from appservice.received_event import ReceivedEvent, read
from appservice.service.guest_entries import to_entry, to_key
from federation.errors import MatrixError
from federation.service.single_flight import SingleFlight
from storage import guest_rooms as rooms
from storage.appservice_events import lock_registration
from storage.database import Database
from storage.guest_rooms import Fetch, GuestEntry

FetchState: TypeAlias = Callable[[str, str], Awaitable[Sequence[Mapping[str, Any]]]]
"""`GET /rooms/{roomId}/state` of a room, as one of our users. Raises `MatrixError` and `HomeserverAway`."""

MOST_FETCHES: Final = 3
"""In which the room may be doubted while it is fetched; after that it is read as it is."""
MOST_RESIDENTS: Final = 20
AT_ONCE: Final = 500
"""Events that are read before others have their turn."""


class RoomFetching:
    """`is_ours` says of a user whether it is a ghost. It is closed at the end."""

    def __init__(
        self, database: Database, fetch: FetchState, *, registration: str, is_ours: Callable[[str], bool]
    ) -> None:
        self._database = database
        self._fetch = fetch
        self._registration = registration
        self._is_ours = is_ours
        self._fetching: SingleFlight[str, bool] = SingleFlight()

    async def close(self) -> None:
        await self._fetching.close()

    async def residents(self, room_id: str) -> list[str]:
        """Some of ours who are there, as far as is known."""
        found = await self._database.look(
            partial(rooms.list_residents, room_id=room_id, limit=MOST_RESIDENTS)
        )
        return [user for user in found if self._is_ours(user)]

    async def make_whole(self, room_id: str, believed: timedelta) -> bool:
        """Unless it has become whole since, no longer than this ago. False when nobody of ours is there,
        whatever was believed. What the homeserver cannot do now is raised."""
        return await self._fetching.run(room_id, partial(self._make_whole, room_id, believed))

    async def _make_whole(self, room_id: str, believed: timedelta) -> bool:
        if await self._is_whole(room_id, believed) and await self.residents(room_id):
            return True
        fetched = 0
        while fetched < MOST_FETCHES:
            residents = await self.residents(room_id)
            begun = await self._database.look(partial(rooms.begin_fetch, room_id=room_id))
            if not residents or begun is None:
                return False
            try:
                events = await self._fetch(room_id, residents[0])
            except MatrixError as refused:
                if refused.status not in (403, 404):
                    raise
                await self._was_not_there(room_id, residents[0], begun)
                continue
            fetched += 1
            if await self._merge(room_id, begun, events):
                break
        return True

    async def _is_whole(self, room_id: str, believed: timedelta) -> bool:
        known = await self._database.look(
            partial(rooms.fetch_entry, room_id=room_id, type_=b"", state_key=b"", age=believed)
        )
        return known is not None and known[0] == "whole"

    async def _merge(self, room_id: str, begun: Fetch, events: Sequence[Mapping[str, Any]]) -> bool:
        entries: dict[tuple[bytes, bytes], GuestEntry] = {}
        for number, event in enumerate(events, 1):
            received = read({**event, "room_id": room_id})
            if isinstance(received, ReceivedEvent) and received.event.state_key is not None:
                entry = to_entry(received, self._is_ours)
                entries[entry.type, entry.state_key] = entry
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            return await rooms.merge(connection, room_id, begun, list(entries.values()))

    async def _was_not_there(self, room_id: str, user: str, begun: Fetch) -> None:
        """The homeserver knows better. When it was the last one, nothing is known of the room any more."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.delete_resident(connection, room_id, to_key(user), begun)
            if not await rooms.list_residents(connection, room_id, 1):
                await rooms.doubt(connection, room_id)
