"""What is said of the rooms that this server is in, made anew when a room has changed."""

from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from federation.auth_rules.auth_event_selection import CREATE
from federation.room_summary import SUMMARISED, WORDS, RoomSummary, summarised
from federation.room_version import ROOM_VERSIONS
from federation.service.room_ports import Rooms
from federation.space_children import CHILD, Child, children_of
from federation.weighted_cache import WeightedCache
from storage.current_state import count_joined_by_server, fetch_entries
from storage.database import Database
from storage.rooms import RoomRow, fetch_rooms

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of all summaries that are kept, and again of all children of spaces; as JSON."""
MOST_EVENTS: Final = 2_000
"""That are read to find the children of a space."""
_WEIGHT_OF_ANY: Final = 500

_Children = tuple[int, Sequence[Child]]
"""With the generation of the room, as everything that is kept."""


class RoomSummaries:
    def __init__(self, server_name: str, database: Database, rooms: Rooms) -> None:
        self._server_name = server_name
        self._database = database
        self._rooms = rooms
        self._kept: WeightedCache[str, tuple[int, RoomSummary | None]] = WeightedCache(MOST_BYTES)
        self._children: WeightedCache[tuple[str, bool], _Children] = WeightedCache(MOST_BYTES)

    async def of(self, room_id: str) -> RoomSummary | None:
        """None for a room that nobody of this server is in: what is known of it may be long past."""
        return (await self.of_all([room_id])).get(room_id)

    async def of_all(self, room_ids: Iterable[str]) -> dict[str, RoomSummary]:
        """Of those of the rooms that this server is in."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await fetch_rooms(connection, room_ids)
        found = {row.room_id: await self._summary(row) for row in rows}
        return {room_id: summary for room_id, summary in found.items() if summary is not None}

    async def children(self, space: RoomSummary, *, suggested_only: bool) -> Sequence[Child]:
        """In their order. A room that is no space has none."""
        view = await self._rooms.room(space.room_id) if space.is_space else None
        if view is None:
            return ()
        key = (space.room_id, suggested_only)
        kept = self._children.get(key)
        if kept is not None and kept[0] == view.generation:
            return kept[1]
        async with self._database.transaction(readonly=True) as connection:
            entries = await fetch_entries(connection, space.room_id, CHILD)
        events = await self._rooms.events(sorted(entries.values())[:MOST_EVENTS])
        shown = await self._rooms.shown_to_people(list(events.values()))
        made = children_of(shown, suggested_only=suggested_only)
        self._children.put(key, (view.generation, made), _WEIGHT_OF_ANY + len(orjson.dumps(made)))
        return made

    async def _summary(self, row: RoomRow) -> RoomSummary | None:
        kept = self._kept.get(row.room_id)
        if kept is not None and kept[0] == row.generation:
            return kept[1]
        made = await self._made(row)
        weight = _WEIGHT_OF_ANY + (0 if made is None else len(orjson.dumps(made.said)))
        self._kept.put(row.room_id, (row.generation, made), weight)
        return made

    async def _made(self, row: RoomRow) -> RoomSummary | None:
        async with self._database.transaction(readonly=True) as connection:
            joined = await count_joined_by_server(connection, row.room_id)
        if self._server_name not in joined:
            return None
        state = await self._rooms.current_events(row.room_id, SUMMARISED)
        words = await self._rooms.shown_to_people([state[key] for key in WORDS if key in state])
        assert CREATE in state, "a room that somebody is in has been created"
        state |= {pdu.key: pdu for pdu in words if pdu.key is not None}
        return summarised(ROOM_VERSIONS[row.version], state, sum(joined.values()))
