"""What rooms say of themselves, of many rooms at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.service.operator.parts import Parts
from federation.auth_rules import CREATE
from federation.pdu import Pdu, StateKey
from federation.room_summary import SUMMARISED, summarised
from federation.room_version import ROOM_VERSIONS
from storage.inspection import state_entries
from storage.rooms import RoomRow, fetch_rooms


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


async def summaries(parts: Parts, room_ids: Collection[str]) -> dict[str, Summary]:
    """Of those that there are, in the order in which they are named; in few questions, however many. What was
    redacted is not said."""
    async with parts.database.transaction(readonly=True) as connection:
        rows = {row.room_id: row for row in await fetch_rooms(connection, room_ids)}
        entries = await state_entries(connection, room_ids, {type_ for type_, _ in SUMMARISED})
    events = await parts.graph.events([entry.event_id for entry in entries])
    shown = {pdu.event_id: pdu for pdu in await parts.graph.shown_to_people(list(events.values()))}
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
