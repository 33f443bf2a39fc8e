"""Finds the room or the event that a person means: by id, by the beginning of it, by alias, by name."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from bridge.service.operator.parts import Parts
from bridge.service.operator.refusals import told
from bridge.service.operator.room_summaries import Summary, summaries
from federation.errors import PeerError
from federation.identifiers import domain, is_room_alias, is_room_id
from federation.known_event import KnownEvent
from federation.service.handshakes import Handshakes
from storage.aliases import fetch_alias
from storage.errors import LocalError
from storage.inspection import events_beginning_with, room_ids_after, rooms_beginning_with

SHORTEST: Final = 4
"""Characters of an id, its sigil not counted, by which it may be found."""
AT_ONCE: Final = 500
MOST_SEARCHED: Final = 50_000
"""Rooms."""
_SHOWN: Final = 5
_LIST: Final = "`palaver rooms list` shows the rooms that it is in."


async def find_room(parts: Parts, text: str) -> str:
    """The id. A shell takes a `!` for its own unless it is quoted, so an id may come without."""
    if text.startswith("#"):
        return await _by_alias(parts, text)
    room_id = text if text.startswith("!") else f"!{text}"
    if await parts.graph.room(room_id) is not None:
        return room_id
    if len(room_id) > SHORTEST:
        async with parts.database.transaction(readonly=True) as connection:
            found = await rooms_beginning_with(connection, room_id, _SHOWN + 1)
        if len(found) == 1:
            return found[0]
        if found and text.startswith("!"):
            raise _ambiguous(text, found, "rooms")
    if text.startswith("!"):
        raise LocalError(f"This node is in no room {text}.", _LIST)
    return await _by_name(parts, text)


async def find_event(parts: Parts, text: str) -> KnownEvent:
    """The `$` may be missing: a shell takes it for its own unless it is quoted."""
    event_id = text if text.startswith("$") else f"${text}"
    found = (await parts.graph.known_events([event_id])).get(event_id)
    if found is not None:
        return found
    if len(event_id) > SHORTEST:
        async with parts.database.transaction(readonly=True) as connection:
            ids = await events_beginning_with(connection, event_id, _SHOWN + 1)
        if len(ids) == 1:
            return (await parts.graph.known_events(ids))[ids[0]]
        if ids:
            raise _ambiguous(text, ids, "events")
    raise LocalError(
        f"This node has no event {event_id}.",
        "Put an id into single quotes, or leave out its $; `palaver rooms dag` shows those of a room.",
    )


async def search(parts: Parts, words: str, after: str, limit: int) -> tuple[list[Summary], str | None]:
    """The rooms whose id, name, alias or topic has the words in it, in the order of the ids; and where to go
    on, if there is more."""
    wanted = words.casefold()
    found: list[Summary] = []
    async for summary in _all_rooms(parts, after):
        if any(wanted in text.casefold() for text in _searched(summary)):
            if len(found) == limit:
                return found, found[-1].row.room_id
            found.append(summary)
    return found, None


async def _all_rooms(parts: Parts, after: str) -> AsyncIterator[Summary]:
    for _ in range(MOST_SEARCHED // AT_ONCE):
        async with parts.database.transaction(readonly=True) as connection:
            ids = await room_ids_after(connection, after, AT_ONCE)
        for summary in (await summaries(parts, ids)).values():
            yield summary
        if len(ids) < AT_ONCE:
            return
        after = ids[-1]
    raise LocalError(
        f"More than {MOST_SEARCHED} rooms are not searched at once.",
        "Name the room by its id, or by the beginning of it; or search from a room on, with --after.",
    )


def _searched(summary: Summary) -> list[str]:
    said = (summary.name, summary.alias, summary.said.get("topic"))
    return [summary.row.room_id, *(text for text in said if text)]


async def _by_name(parts: Parts, name: str) -> str:
    wanted = name.casefold()
    found = [
        summary.row.room_id
        async for summary in _all_rooms(parts, "")
        if summary.name is not None and summary.name.casefold() == wanted
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(name, found, "rooms")
    raise LocalError(f"This node is in no room whose id, alias or name is {name}.", _LIST)


async def _by_alias(parts: Parts, alias: str) -> str:
    if not is_room_alias(alias):
        raise LocalError(f"{alias} is not an alias.", "One is written #name:server.")
    server = domain(alias) or ""
    if server == parts.server_name:
        async with parts.database.transaction(readonly=True) as connection:
            row = await fetch_alias(connection, alias)
        if row is None:
            raise LocalError(f"This node has no alias {alias}.", _LIST)
        room_id = row.room_id
    else:
        try:
            room_id, _ = await Handshakes(parts.client).directory(server, alias)
        except PeerError as error:
            raise told(error, "Name the room by its id, or by its name.") from error
    if not is_room_id(room_id) or await parts.graph.room(room_id) is None:
        raise LocalError(f"{alias} is the room {room_id}, which this node is not in.", _LIST)
    return room_id


def _ambiguous(text: str, found: Sequence[str], what: str) -> LocalError:
    shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    return LocalError(
        f"{text} may be any of several {what}: {shown}.", "Write as much of the id as it takes."
    )
