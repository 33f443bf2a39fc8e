"""The whole state of a room, fetched from the homeserver when what it has told so far is not enough.

It may be told more while it answers, and it may be told late. So what has come since the fetch began stays:
it is at least as new as what was fetched, or what is newer follows it.

The end of a room, as the homeserver has it, beside what it has told of it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from mautrix.api import Method, Path

from appservice.homeserver.client import HomeserverClient
from appservice.intake.received_event import ReceivedEvent, read
from appservice.intake.state_entries import to_entry, to_key
from federation.matrix.errors import MatrixError
from federation.transactions.edus import is_event_id_text
from storage.appservice import rooms
from storage.appservice.events import fetch_known_ids, lock_registration
from storage.appservice.rooms import StateEntry, StateFetch
from storage.concurrency import SingleFlight
from storage.database import Database

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
        found = await self._database.read(
            partial(rooms.list_local_members, room_id=room_id, limit=MOST_RESIDENTS)
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
            begun = await self._database.read(partial(rooms.begin_state_fetch, room_id=room_id))
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
        known = await self._database.read(
            partial(rooms.fetch_entry, room_id=room_id, type_=b"", state_key=b"", age=believed)
        )
        return known is not None and known[0] == "complete"

    async def _merge(self, room_id: str, begun: StateFetch, events: Sequence[Mapping[str, Any]]) -> bool:
        entries: dict[tuple[bytes, bytes], StateEntry] = {}
        for number, event in enumerate(events, 1):
            received = read({**event, "room_id": room_id})
            if isinstance(received, ReceivedEvent) and received.event.state_key is not None:
                entry = to_entry(received, self._is_ours)
                entries[entry.type, entry.state_key] = entry
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            return await rooms.merge_state(connection, room_id, begun, list(entries.values()))

    async def _was_not_there(self, room_id: str, user: str, begun: StateFetch) -> None:
        """The homeserver knows better. When it was the last one, nothing is known of the room any more."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.delete_local_member(connection, room_id, to_key(user), begun)
            if not await rooms.list_local_members(connection, room_id, 1):
                await rooms.mark_incomplete(connection, room_id)


PAGE: Final = 100
MOST_PAGES: Final = 10
"""What was not told is looked for among a thousand events."""
KEPT_MS: Final = 7 * 24 * 3_600 * 1_000
"""For so long it is known what was told."""

Event = Mapping[str, Any]


async def pages(
    client: HomeserverClient, database: Database, room_id: str, user: str, now_ms: int
) -> AsyncIterator[tuple[list[Event], Collection[str]]]:
    """Of events, the newest first, each with the ids of those that were told; until all of a page was told,
    or is so old that nobody knows. Raises `MatrixError` where the user may not look there, and
    `HomeserverAway`."""
    query = {"dir": "b", "limit": str(PAGE)}
    for _ in range(MOST_PAGES):
        page = await client.ask(Method.GET, Path.v3.rooms[room_id].messages, user=user, query=query)
        chunk, end = page.get("chunk"), page.get("end")
        events = [event for event in chunk if _is_event(event)] if isinstance(chunk, list) else []
        recent = {event["event_id"] for event in events if _time(event) > now_ms - KEPT_MS}
        told = await _told(database, recent)
        yield [event for event in events if event["event_id"] in recent], told
        if not isinstance(end, str) or recent <= told:
            return
        query = {"dir": "b", "limit": str(PAGE), "from": end}


async def _told(database: Database, event_ids: Iterable[str]) -> set[str]:
    wanted = list(event_ids)
    return await database.read(partial(fetch_known_ids, event_ids=wanted)) if wanted else set()


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and is_event_id_text(event.get("event_id"))
        and isinstance(event.get("content"), dict)
    )


def _time(event: Event) -> int:
    ts = event.get("origin_server_ts")
    return ts if type(ts) is int else 0
