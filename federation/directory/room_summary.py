"""Room summaries for users outside of a room: in the room directory and in spaces.

Client-server API, "Published room directory" and "Spaces"; the server-server API has the same fields.

Summaries of the rooms that this server is in are cached until the room changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from federation.auth_rules.auth_event_selection import JOIN_RULES
from federation.auth_rules.room_state import RoomState
from federation.caches import WeightedCache
from federation.directory.spaces import CHILD, Child, children_of
from federation.events import CREATE, Pdu, StateKey
from federation.matrix.identifiers import domain, is_room_alias, is_room_id
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion
from federation.memberships.restricted_joins import MAX_CONDITIONS, allowed_rooms
from federation.rooms.engine import RoomGraph
from federation.rooms.read import HISTORY_VISIBILITY
from federation.rooms.server_acl import ACL, ServerAcl, server_acl
from storage.database import Database
from storage.rooms.rooms import RoomRow, count_joined_by_server, fetch_entries, fetch_rooms

SPACE: Final = "m.space"

_CANONICAL_ALIAS: Final[StateKey] = ("m.room.canonical_alias", "")
_GUEST_ACCESS: Final[StateKey] = ("m.room.guest_access", "")
# Field of the summary, state event, field of its content.
_TEXTS: Final[tuple[tuple[str, StateKey, str], ...]] = (
    ("name", ("m.room.name", ""), "name"),
    ("topic", ("m.room.topic", ""), "topic"),
    ("canonical_alias", _CANONICAL_ALIAS, "alias"),
    ("avatar_url", ("m.room.avatar", ""), "url"),
    ("room_type", CREATE, "type"),
    ("encryption", ("m.room.encryption", ""), "algorithm"),
)
_READ_TEXTS: Final = ("join_rule", "room_version", *(name for name, _, _ in _TEXTS))

SUMMARY_STATE: Final[tuple[StateKey, ...]] = tuple(
    dict.fromkeys([CREATE, JOIN_RULES, HISTORY_VISIBILITY, _GUEST_ACCESS, ACL, *(key for _, key, _ in _TEXTS)])
)
"""The state events from which a summary is result."""

REDACTABLE: Final[tuple[StateKey, ...]] = tuple(
    key for name, key, _ in _TEXTS if name in ("name", "topic", "canonical_alias", "avatar_url")
)
"""Those with texts or pictures of users, which may be redacted: the summary has their redacted content.
The others stay in effect when they are redacted."""

MAX_MEMBERS: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class RoomSummary:
    """A room summary. `fields` is its JSON in responses; the other attributes decide who may see it."""

    fields: Mapping[str, Any] = field(repr=False)
    is_open: bool
    """Everyone may join, knock or read."""
    allowed_by: tuple[str, ...]
    """Rooms whose members may join, for a restricted join rule."""
    acl: ServerAcl
    only_server: str | None
    """The only server that may participate, if `m.federate` is false."""

    @property
    def room_id(self) -> str:
        return str(self.fields["room_id"])

    @property
    def is_space(self) -> bool:
        return self.fields.get("room_type") == SPACE

    def excludes(self, server: str) -> bool:
        """Whether the server cannot participate, by the server ACL or `m.federate`."""
        return not self.acl.allows(server) or self.only_server not in (None, server)


def summarise(version: RoomVersion, state: Mapping[StateKey, Pdu], members: int) -> RoomSummary:
    """Make the summary of a room. `state` has the events of `SUMMARY_STATE` that the room has; `members` is
    the number of joined members."""
    create = state[CREATE]
    rule = RoomState(state, create, version).join_rule
    world_readable = _text(state, HISTORY_VISIBILITY, "history_visibility") == "world_readable"
    allowed_by = allowed_rooms(state, version)
    fields: dict[str, Any] = {
        "room_id": create.room_id,
        "room_version": version.id,
        "num_joined_members": members,
        "world_readable": world_readable,
        "guest_can_join": _text(state, _GUEST_ACCESS, "guest_access") == "can_join",
        # An invalid rule admits nobody.
        "join_rule": rule if isinstance(rule, str) else "invite",
    }
    for name, key, property_ in _TEXTS:
        text = _text(state, key, property_)
        if text and (key != _CANONICAL_ALIAS or is_room_alias(text)):
            fields[name] = text
    if allowed_by:
        # "If the room is a restricted room, these are the room IDs which are specified by the join rules."
        fields["allowed_room_ids"] = list(allowed_by)
    acl = state.get(ACL)
    federates = create.content.get("m.federate", True) is True
    return RoomSummary(
        fields,
        is_open=world_readable or _admits_everyone(rule, version),
        allowed_by=allowed_by,
        acl=server_acl(None if acl is None else acl.content),
        only_server=None if federates else domain(create.sender),
    )


def parse_summary(entry: object) -> dict[str, Any] | None:
    """Parse another server's summary of a room, leaving out invalid fields. None without a valid room id."""
    room_id = entry.get("room_id") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(room_id, str) or not is_room_id(room_id):
        return None
    members = entry.get("num_joined_members")
    fields: dict[str, Any] = {
        "room_id": room_id,
        "num_joined_members": min(max(members, 0), MAX_MEMBERS) if type(members) is int else 0,
        "world_readable": entry.get("world_readable") is True,
        "guest_can_join": entry.get("guest_can_join") is True,
    }
    fields |= {name: entry[name] for name in _READ_TEXTS if isinstance(entry.get(name), str)}
    allowed = entry.get("allowed_room_ids")
    if isinstance(allowed, list):
        ids = [one for one in allowed[:MAX_CONDITIONS] if isinstance(one, str) and is_room_id(one)]
        fields["allowed_room_ids"] = ids
    return fields


def is_reported_open(fields: Mapping[str, Any]) -> bool:
    """Whether everyone may join, knock or read, according to another server's summary.

    "If not present, the room is assumed to be `public`."
    """
    rule = fields.get("join_rule", "public")
    return fields["world_readable"] is True or rule in ("public", "knock", "knock_restricted")


def _admits_everyone(rule: object, version: RoomVersion) -> bool:
    return (
        rule == "public"
        or (version.knocking and rule == "knock")
        or (version.knock_restricted_joins and rule == "knock_restricted")
    )


def _text(state: Mapping[StateKey, Pdu], key: StateKey, name: str) -> str | None:
    text = state[key].content.get(name) if key in state else None
    return text if isinstance(text, str) else None


MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of the cached summaries, and of the cached children of spaces, as JSON."""
MAX_EVENTS: Final = 2_000
"""The most state events that are read to find the children of a space."""
_BASE_WEIGHT: Final = 500

_Children = tuple[int, Sequence[Child]]
"""The room's generation at which the entry was cached, and the children."""


def _weight_of_summary(cached: tuple[int, RoomSummary | None]) -> int:
    return _BASE_WEIGHT + (0 if cached[1] is None else len(orjson.dumps(cached[1].fields)))


def _weight_of_children(cached: _Children) -> int:
    return _BASE_WEIGHT + len(orjson.dumps(cached[1]))


class RoomSummaries:
    def __init__(self, server_name: str, database: Database, rooms: RoomGraph) -> None:
        self._server_name = server_name
        self._database = database
        self._rooms = rooms
        self._cache: WeightedCache[str, tuple[int, RoomSummary | None]] = WeightedCache(MAX_BYTES, _weight_of_summary)
        self._children: WeightedCache[tuple[str, bool], _Children] = WeightedCache(MAX_BYTES, _weight_of_children)

    async def of(self, room_id: str) -> RoomSummary | None:
        """Return a room's summary; None if no local user is in the room, whose state may then be
        outdated."""
        return (await self.of_all([room_id])).get(room_id)

    async def of_all(self, room_ids: Iterable[str]) -> dict[str, RoomSummary]:
        """Return the summaries of those rooms that this server is in."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await fetch_rooms(connection, room_ids)
        found = {row.room_id: await self._summary(row) for row in rows}
        return {room_id: summary for room_id, summary in found.items() if summary is not None}

    async def children(self, space: RoomSummary, *, suggested_only: bool) -> Sequence[Child]:
        """Return the children of a space in order; none for other rooms."""
        view = await self._rooms.room(space.room_id) if space.is_space else None
        if view is None:
            return ()
        key = (space.room_id, suggested_only)
        cached = self._children.get(key)
        if cached is not None and cached[0] == view.generation:
            return cached[1]
        async with self._database.transaction(readonly=True) as connection:
            entries = await fetch_entries(connection, space.room_id, CHILD)
        events = await self._rooms.events(sorted(entries.values())[:MAX_EVENTS])
        redacted = await self._rooms.apply_redactions(list(events.values()))
        result = children_of(redacted, suggested_only=suggested_only)
        self._children[key] = (view.generation, result)
        return result

    async def _summary(self, row: RoomRow) -> RoomSummary | None:
        cached = self._cache.get(row.room_id)
        if cached is not None and cached[0] == row.generation:
            return cached[1]
        result = await self._summarise(row)
        self._cache[row.room_id] = (row.generation, result)
        return result

    async def _summarise(self, row: RoomRow) -> RoomSummary | None:
        async with self._database.transaction(readonly=True) as connection:
            joined = await count_joined_by_server(connection, row.room_id)
        if self._server_name not in joined:
            return None
        state = await self._rooms.current_events(row.room_id, SUMMARY_STATE)
        redacted = await self._rooms.apply_redactions([state[key] for key in REDACTABLE if key in state])
        assert CREATE in state, "a joined room has a create event"
        state |= {pdu.key: pdu for pdu in redacted if pdu.key is not None}
        return summarise(ROOM_VERSIONS[row.version], state, sum(joined.values()))
