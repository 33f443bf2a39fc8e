"""Finds a room or an event by what the operator typed: an id, the beginning of an id, an alias or a name.
Loads the summaries of many rooms at once."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.control.server.arguments import to_local_error
from federation.directory.room_summary import SUMMARY_STATE, summarise
from federation.events import CREATE, Pdu, StateKey
from federation.homeserver import Homeserver
from federation.matrix.errors import PeerError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.outgoing import MembershipClient
from federation.rooms.receive_checks import KnownEvent
from storage.errors import LocalError
from storage.rooms.aliases import fetch_alias
from storage.rooms.inspection import fetch_state_entries, list_events_with_prefix, list_room_ids, list_rooms_with_prefix
from storage.rooms.rooms import RoomRow, fetch_rooms


@dataclass(frozen=True, slots=True)
class Summary:
    """A room and its description. `fields` are those of a public room list that the room's state has."""

    row: RoomRow
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str | None:
        name: str | None = self.fields.get("name")
        return name

    @property
    def alias(self) -> str | None:
        alias: str | None = self.fields.get("canonical_alias")
        return alias


async def summaries(homeserver: Homeserver, room_ids: Collection[str]) -> dict[str, Summary]:
    """Load the summaries of the rooms that exist, in the given order, with a constant number of queries.
    Redacted content is omitted."""
    async with homeserver.database.transaction(readonly=True) as connection:
        rows = {row.room_id: row for row in await fetch_rooms(connection, room_ids)}
        entries = await fetch_state_entries(connection, room_ids, {type_ for type_, _ in SUMMARY_STATE})
    events = await homeserver.graph.events([entry.event_id for entry in entries])
    shown = {pdu.event_id: pdu for pdu in await homeserver.graph.apply_redactions(list(events.values()))}
    states: dict[str, dict[StateKey, Pdu]] = {room_id: {} for room_id in rows}
    for entry in entries:
        if entry.room_id in states and entry.event_id in shown:
            states[entry.room_id][entry.type, entry.state_key] = shown[entry.event_id]
    return {
        room_id: Summary(rows[room_id], _fields(rows[room_id], states[room_id]))
        for room_id in room_ids
        if room_id in rows
    }


def _fields(row: RoomRow, state: Mapping[StateKey, Pdu]) -> Mapping[str, Any]:
    if CREATE not in state:
        # Should not happen, but one broken room must not break the list of all rooms.
        return {"room_id": row.room_id, "room_version": row.version}
    return summarise(ROOM_VERSIONS[row.version], state, 0).fields


SHORTEST: Final = 4
"""Minimum length of the beginning of an id, without the sigil."""
AT_ONCE: Final = 500
MAX_SEARCHED: Final = 50_000
"""Maximum number of rooms to search."""
_SHOWN: Final = 5
_LIST: Final = "`palaver rooms list` shows the rooms that this node has joined."


async def find_room(homeserver: Homeserver, text: str) -> str:
    """Return the room's id. The `!` is optional, because shells interpret it unless it is quoted."""
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
        raise LocalError(f"This node has not joined a room {text}.", _LIST)
    return await _by_name(homeserver, text)


async def find_event(homeserver: Homeserver, text: str) -> KnownEvent:
    """Return the event. The `$` is optional, because shells interpret it unless it is quoted."""
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
        "Put the id into single quotes, or omit the $. `palaver rooms dag` shows the events of a room.",
    )


async def search(homeserver: Homeserver, words: str, after: str, limit: int) -> tuple[list[Summary], str | None]:
    """Return the rooms whose id, name, alias or topic contains `words`, sorted by id, and the `after` of the
    next page, if any."""
    wanted = words.casefold()
    found: list[Summary] = []
    async for summary in _all_rooms(homeserver, after):
        if any(wanted in text.casefold() for text in _searched(summary)):
            if len(found) == limit:
                return found, found[-1].row.room_id
            found.append(summary)
    return found, None


async def _all_rooms(homeserver: Homeserver, after: str) -> AsyncIterator[Summary]:
    for _ in range(MAX_SEARCHED // AT_ONCE):
        async with homeserver.database.transaction(readonly=True) as connection:
            ids = await list_room_ids(connection, after, AT_ONCE)
        for summary in (await summaries(homeserver, ids)).values():
            yield summary
        if len(ids) < AT_ONCE:
            return
        after = ids[-1]
    raise LocalError(
        f"The search stopped after {MAX_SEARCHED} rooms.",
        "Use the room's id or the beginning of it, or continue the search with --after.",
    )


def _searched(summary: Summary) -> list[str]:
    texts = (summary.name, summary.alias, summary.fields.get("topic"))
    return [summary.row.room_id, *(text for text in texts if text)]


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
    raise LocalError(f"This node has not joined a room with the id, alias or name {name}.", _LIST)


async def _by_alias(homeserver: Homeserver, alias: str) -> str:
    if not is_room_alias(alias):
        raise LocalError(f"{alias} is not an alias.", "Write an alias like #name:server.")
    server = domain(alias) or ""
    if server == homeserver.server_name:
        async with homeserver.database.transaction(readonly=True) as connection:
            row = await fetch_alias(connection, alias)
        if row is None:
            raise LocalError(f"This node has no alias {alias}.", _LIST)
        room_id = row.room_id
    else:
        try:
            room_id, _ = await MembershipClient(homeserver.client).directory(server, alias)
        except PeerError as error:
            raise to_local_error(error, "Use the room's id or its name.") from error
    if not is_room_id(room_id) or await homeserver.graph.room(room_id) is None:
        raise LocalError(f"{alias} is the room {room_id}, which this node has not joined.", _LIST)
    return room_id


def _ambiguous(text: str, found: Sequence[str], what: str) -> LocalError:
    shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    return LocalError(f"{text} matches several {what}: {shown}.", "Write more of the id.")
