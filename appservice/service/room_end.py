"""The end of a room, as the homeserver has it, beside what it has told of it."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.service.homeserver_client import HomeserverClient
from federation.edu.fields import is_event
from storage.appservice_events import fetch_known
from storage.database import Database

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
    return await database.look(partial(fetch_known, event_ids=wanted)) if wanted else set()


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict) and is_event(event.get("event_id")) and isinstance(event.get("content"), dict)
    )


def _time(event: Event) -> int:
    ts = event.get("origin_server_ts")
    return ts if type(ts) is int else 0
