"""Finds the room or the event that a person means: by id, by the beginning of it, by alias, by name.

What rooms say of themselves, of many rooms at once.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.control.server.arguments import told
from federation.directory.room_summary import SUMMARISED, summarised
from federation.events import CREATE, Pdu, StateKey
from federation.homeserver import Homeserver
from federation.matrix.errors import PeerError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.outgoing import Handshakes
from federation.rooms.receive_checks import KnownEvent
from storage.errors import LocalError
from storage.rooms.aliases import fetch_alias
from storage.rooms.inspection import (
    fetch_state_entries,
    list_events_with_prefix,
    list_room_ids,
    list_rooms_with_prefix,
)
from storage.rooms.rooms import RoomRow, fetch_rooms


@dataclass(frozen=True, slots=True)
class Summary:
    """`said` is what a list of rooms says, as far as the room says it."""

    row: RoomRow
    said: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str | None:
        name: str | None = self.said.get("name")
        return name

    @property
    def alias(self) -> str | None:
        alias: str | None = self.said.get("canonical_alias")
        return alias


async def summaries(homeserver: Homeserver, room_ids: Collection[str]) -> dict[str, Summary]:
    """Of those that there are, in the order in which they are named; in few questions, however many. What was
    redacted is not said."""
    async with homeserver.database.transaction(readonly=True) as connection:
        rows = {row.room_id: row for row in await fetch_rooms(connection, room_ids)}
        entries = await fetch_state_entries(connection, room_ids, {type_ for type_, _ in SUMMARISED})
    events = await homeserver.graph.events([entry.event_id for entry in entries])
    shown = {pdu.event_id: pdu for pdu in await homeserver.graph.apply_redactions(list(events.values()))}
    states: dict[str, dict[StateKey, Pdu]] = {room_id: {} for room_id in rows}
    for entry in entries:
        if entry.room_id in states and entry.event_id in shown:
            states[entry.room_id][entry.type, entry.state_key] = shown[entry.event_id]
    return {
        room_id: Summary(rows[room_id], _said(rows[room_id], states[room_id]))
        for room_id in room_ids
        if room_id in rows
    }


def _said(row: RoomRow, state: Mapping[StateKey, Pdu]) -> Mapping[str, Any]:
    if CREATE not in state:
        # That cannot be. A list in which one such room hides all others would hide this too.
        return {"room_id": row.room_id, "room_version": row.version}
    return summarised(ROOM_VERSIONS[row.version], state, 0).said


SHORTEST: Final = 4
"""Characters of an id, its sigil not counted, by which it may be found."""
AT_ONCE: Final = 500
MOST_SEARCHED: Final = 50_000
"""Rooms."""
_SHOWN: Final = 5
_LIST: Final = "`palaver rooms list` shows the rooms that it is in."


async def find_room(homeserver: Homeserver, text: str) -> str:
    """The id. A shell takes a `!` for its own unless it is quoted, so an id may come without."""
    if text.startswith("#"):
        return await _by_alias(homeserver, text)
    room_id = text if text.startswith("!") else f"!{text}"
    if await homeserver.graph.room(room_id) is not None:
        return room_id
    if len(room_id) > SHORTEST:
        async with homeserver.database.transaction(readonly=True) as connection:
            found = await list_rooms_with_prefix(connection, room_id, _SHOWN + 1)
        if len(found) == 1:
            return found[0]
        if found and text.startswith("!"):
            raise _ambiguous(text, found, "rooms")
    if text.startswith("!"):
        raise LocalError(f"This node is in no room {text}.", _LIST)
    return await _by_name(homeserver, text)


async def find_event(homeserver: Homeserver, text: str) -> KnownEvent:
    """The `$` may be missing: a shell takes it for its own unless it is quoted."""
    event_id = text if text.startswith("$") else f"${text}"
    found = (await homeserver.graph.known_events([event_id])).get(event_id)
    if found is not None:
        return found
    if len(event_id) > SHORTEST:
        async with homeserver.database.transaction(readonly=True) as connection:
            ids = await list_events_with_prefix(connection, event_id, _SHOWN + 1)
        if len(ids) == 1:
            return (await homeserver.graph.known_events(ids))[ids[0]]
        if ids:
            raise _ambiguous(text, ids, "events")
    raise LocalError(
        f"This node has no event {event_id}.",
        "Put an id into single quotes, or leave out its $; `palaver rooms dag` shows those of a room.",
    )


async def search(
    homeserver: Homeserver, words: str, after: str, limit: int
) -> tuple[list[Summary], str | None]:
    """The rooms whose id, name, alias or topic has the words in it, in the order of the ids; and where to go
    on, if there is more."""
    wanted = words.casefold()
    found: list[Summary] = []
    async for summary in _all_rooms(homeserver, after):
        if any(wanted in text.casefold() for text in _searched(summary)):
            if len(found) == limit:
                return found, found[-1].row.room_id
            found.append(summary)
    return found, None


async def _all_rooms(homeserver: Homeserver, after: str) -> AsyncIterator[Summary]:
    for _ in range(MOST_SEARCHED // AT_ONCE):
        async with homeserver.database.transaction(readonly=True) as connection:
            ids = await list_room_ids(connection, after, AT_ONCE)
        for summary in (await summaries(homeserver, ids)).values():
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


async def _by_name(homeserver: Homeserver, name: str) -> str:
    wanted = name.casefold()
    found = [
        summary.row.room_id
        async for summary in _all_rooms(homeserver, "")
        if summary.name is not None and summary.name.casefold() == wanted
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(name, found, "rooms")
    raise LocalError(f"This node is in no room whose id, alias or name is {name}.", _LIST)


async def _by_alias(homeserver: Homeserver, alias: str) -> str:
    if not is_room_alias(alias):
        raise LocalError(f"{alias} is not an alias.", "One is written #name:server.")
    server = domain(alias) or ""
    if server == homeserver.server_name:
        async with homeserver.database.transaction(readonly=True) as connection:
            row = await fetch_alias(connection, alias)
        if row is None:
            raise LocalError(f"This node has no alias {alias}.", _LIST)
        room_id = row.room_id
    else:
        try:
            room_id, _ = await Handshakes(homeserver.client).directory(server, alias)
        except PeerError as error:
            raise told(error, "Name the room by its id, or by its name.") from error
    if not is_room_id(room_id) or await homeserver.graph.room(room_id) is None:
        raise LocalError(f"{alias} is the room {room_id}, which this node is not in.", _LIST)
    return room_id


def _ambiguous(text: str, found: Sequence[str], what: str) -> LocalError:
    shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    return LocalError(
        f"{text} may be any of several {what}: {shown}.", "Write as much of the id as it takes."
    )
