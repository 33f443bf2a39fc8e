"""Fetches the full state of a room when the received events are not sufficient.

The homeserver may push events during the fetch, and may push them late. So events received since the fetch
began win: they are at least as new as the fetched state, or newer ones follow.

Also reads the end of a room's timeline, together with the ids that the homeserver has already pushed.
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
"""`GET /rooms/{roomId}/state` as one of this node's users. Raises `MatrixError` and
`HomeserverUnavailable`."""

MAX_FETCHES: Final = 3
"""How often a fetch is repeated when the room is invalidated meanwhile; after that the result is used."""
MAX_RESIDENTS: Final = 20
YIELD_EVERY: Final = 500
"""Events after which the event loop gets control."""


class StateFetcher:
    """`is_ours` decides whether a user is a ghost. Call `close` at the end."""

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
        """Return some ghosts that are in the room, as far as known."""
        found = await self._database.read(partial(rooms.list_local_members, room_id=room_id, limit=MAX_RESIDENTS))
        return [user for user in found if self._is_ours(user)]

    async def ensure_complete(self, room_id: str, max_age: timedelta) -> bool:
        """Fetch the state unless it is complete and no older than `max_age`. Return False if no ghost is in
        the room, whatever was stored. Raises what the homeserver cannot do now."""
        return await self._fetching.run(room_id, partial(self._fetch_until_complete, room_id, max_age))

    async def _fetch_until_complete(self, room_id: str, max_age: timedelta) -> bool:
        if await self._is_complete(room_id, max_age) and await self.residents(room_id):
            return True
        fetched = 0
        while fetched < MAX_FETCHES:
            residents = await self.residents(room_id)
            begun = await self._database.read(partial(rooms.begin_state_fetch, room_id=room_id))
            if not residents or begun is None:
                return False
            try:
                events = await self._fetch(room_id, residents[0])
            except MatrixError as refused:
                if refused.status not in (403, 404):
                    raise
                await self._delete_resident(room_id, residents[0], begun)
                continue
            fetched += 1
            if await self._merge(room_id, begun, events):
                break
        return True

    async def _is_complete(self, room_id: str, max_age: timedelta) -> bool:
        known = await self._database.read(
            partial(rooms.fetch_entry, room_id=room_id, type_=b"", state_key=b"", age=max_age)
        )
        return known is not None and known[0] == "complete"

    async def _merge(self, room_id: str, begun: StateFetch, events: Sequence[Mapping[str, Any]]) -> bool:
        entries: dict[tuple[bytes, bytes], StateEntry] = {}
        for number, event in enumerate(events, 1):
            received = read({**event, "room_id": room_id})
            if isinstance(received, ReceivedEvent) and received.event.state_key is not None:
                entry = to_entry(received, self._is_ours)
                entries[entry.type, entry.state_key] = entry
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            return await rooms.merge_state(connection, room_id, begun, list(entries.values()))

    async def _delete_resident(self, room_id: str, user: str, begun: StateFetch) -> None:
        """The homeserver says that the ghost is not in the room. If it was the last one, the whole stored
        state is unreliable."""
        async with self._database.transaction() as connection:
            await lock_registration(connection, self._registration)
            await rooms.delete_local_member(connection, room_id, to_key(user), begun)
            if not await rooms.list_local_members(connection, room_id, 1):
                await rooms.mark_incomplete(connection, room_id)


PAGE: Final = 100
MAX_PAGES: Final = 10
"""The search for missing events covers a thousand events."""
RETENTION_MS: Final = 7 * 24 * 3_600 * 1_000
"""How long the ids of pushed events are stored."""

Event = Mapping[str, Any]


async def timeline_pages(
    client: HomeserverClient, database: Database, room_id: str, user: str, now_ms: int
) -> AsyncIterator[tuple[list[Event], Collection[str]]]:
    """Yield pages of events, newest first, each with the ids that the homeserver has pushed; until a whole
    page is pushed or older than the retention. Raises `MatrixError` if the user may not read the room, and
    `HomeserverUnavailable`."""
    query = {"dir": "b", "limit": str(PAGE)}
    for _ in range(MAX_PAGES):
        page = await client.request(Method.GET, Path.v3.rooms[room_id].messages, user=user, query=query)
        chunk, end = page.get("chunk"), page.get("end")
        events = [event for event in chunk if _is_event(event)] if isinstance(chunk, list) else []
        recent = {event["event_id"] for event in events if _time(event) > now_ms - RETENTION_MS}
        pushed = await _pushed_events(database, recent)
        yield [event for event in events if event["event_id"] in recent], pushed
        if not isinstance(end, str) or recent <= pushed:
            return
        query = {"dir": "b", "limit": str(PAGE), "from": end}


async def _pushed_events(database: Database, event_ids: Iterable[str]) -> set[str]:
    wanted = list(event_ids)
    return await database.read(partial(fetch_known_ids, event_ids=wanted)) if wanted else set()


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict) and is_event_id_text(event.get("event_id")) and isinstance(event.get("content"), dict)
    )


def _time(event: Event) -> int:
    ts = event.get("origin_server_ts")
    return ts if type(ts) is int else 0
