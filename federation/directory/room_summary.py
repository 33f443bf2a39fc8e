"""What is said of a room to somebody who is not in it: in a list of rooms, in a space.

Client-server API, "Published room directory" and "Spaces"; the server-server API says the same.

What is said of the rooms that this server is in, made anew when a room has changed.
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
# What is said, the state event that says it, and its name there.
_TEXTS: Final[tuple[tuple[str, StateKey, str], ...]] = (
    ("name", ("m.room.name", ""), "name"),
    ("topic", ("m.room.topic", ""), "topic"),
    ("canonical_alias", _CANONICAL_ALIAS, "alias"),
    ("avatar_url", ("m.room.avatar", ""), "url"),
    ("room_type", CREATE, "type"),
    ("encryption", ("m.room.encryption", ""), "algorithm"),
)
_READ_TEXTS: Final = ("join_rule", "room_version", *(name for name, _, _ in _TEXTS))

SUMMARISED: Final[tuple[StateKey, ...]] = tuple(
    dict.fromkeys(
        [CREATE, JOIN_RULES, HISTORY_VISIBILITY, _GUEST_ACCESS, ACL, *(key for _, key, _ in _TEXTS)]
    )
)
"""The entries of the state that a summary is made of."""

WORDS: Final[tuple[StateKey, ...]] = tuple(
    key for name, key, _ in _TEXTS if name in ("name", "topic", "canonical_alias", "avatar_url")
)
"""Those of them that people have written or drawn, and may have taken back: they are shown redacted, while
the others go on holding."""

MOST_MEMBERS: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class RoomSummary:
    """`said` is JSON, as it stands in the answers. The rest decides who is given it."""

    said: Mapping[str, Any] = field(repr=False)
    is_open: bool
    """Anybody may join, knock or read."""
    admitting: tuple[str, ...]
    """Rooms whose members may join, when the join rule is a restricted one."""
    acl: ServerAcl
    only_server: str | None
    """The only server that can be in it, if `m.federate` says so."""

    @property
    def room_id(self) -> str:
        return str(self.said["room_id"])

    @property
    def is_space(self) -> bool:
        return self.said.get("room_type") == SPACE

    def shuts_out(self, server: str) -> bool:
        """Whether that server could not take part, whatever its users are."""
        return not self.acl.allows(server) or self.only_server not in (None, server)


def summarised(version: RoomVersion, state: Mapping[StateKey, Pdu], members: int) -> RoomSummary:
    """`state` has as many of the entries as the room has; `members` are those who have joined."""
    create = state[CREATE]
    rule = RoomState(state, create, version).join_rule
    world_readable = _text(state, HISTORY_VISIBILITY, "history_visibility") == "world_readable"
    admitting = allowed_rooms(state, version)
    said: dict[str, Any] = {
        "room_id": create.room_id,
        "room_version": version.id,
        "num_joined_members": members,
        "world_readable": world_readable,
        "guest_can_join": _text(state, _GUEST_ACCESS, "guest_access") == "can_join",
        # A rule that is no text lets nobody in.
        "join_rule": rule if isinstance(rule, str) else "invite",
    }
    for name, key, property_ in _TEXTS:
        text = _text(state, key, property_)
        if text and (key != _CANONICAL_ALIAS or is_room_alias(text)):
            said[name] = text
    if admitting:
        # "If the room is a restricted room, these are the room IDs which are specified by the join rules."
        said["allowed_room_ids"] = list(admitting)
    acl = state.get(ACL)
    federates = create.content.get("m.federate", True) is True
    return RoomSummary(
        said,
        is_open=world_readable or _lets_in(rule, version),
        admitting=admitting,
        acl=server_acl(None if acl is None else acl.content),
        only_server=None if federates else domain(create.sender),
    )


def read_summary(entry: object) -> dict[str, Any] | None:
    """What another server says of a room, as far as it can be passed on; None if it does not say of which."""
    room_id = entry.get("room_id") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(room_id, str) or not is_room_id(room_id):
        return None
    members = entry.get("num_joined_members")
    said: dict[str, Any] = {
        "room_id": room_id,
        "num_joined_members": min(max(members, 0), MOST_MEMBERS) if type(members) is int else 0,
        "world_readable": entry.get("world_readable") is True,
        "guest_can_join": entry.get("guest_can_join") is True,
    }
    said |= {name: entry[name] for name in _READ_TEXTS if isinstance(entry.get(name), str)}
    allowed = entry.get("allowed_room_ids")
    if isinstance(allowed, list):
        ids = [one for one in allowed[:MAX_CONDITIONS] if isinstance(one, str) and is_room_id(one)]
        said["allowed_room_ids"] = ids
    return said


def is_said_open(said: Mapping[str, Any]) -> bool:
    """Whether anybody may join, knock or read, by what another server says.

    "If not present, the room is assumed to be `public`."
    """
    rule = said.get("join_rule", "public")
    return said["world_readable"] is True or rule in ("public", "knock", "knock_restricted")


def _lets_in(rule: object, version: RoomVersion) -> bool:
    return (
        rule == "public"
        or (version.knocking and rule == "knock")
        or (version.knock_restricted_joins and rule == "knock_restricted")
    )


def _text(state: Mapping[StateKey, Pdu], key: StateKey, name: str) -> str | None:
    text = state[key].content.get(name) if key in state else None
    return text if isinstance(text, str) else None


MOST_BYTES: Final = 16 * 1024 * 1024
"""Of all summaries that are kept, and again of all children of spaces; as JSON."""
MOST_EVENTS: Final = 2_000
"""That are read to find the children of a space."""
_WEIGHT_OF_ANY: Final = 500

_Children = tuple[int, Sequence[Child]]
"""With the generation of the room, as everything that is kept."""


def _weight_of_summary(kept: tuple[int, RoomSummary | None]) -> int:
    return _WEIGHT_OF_ANY + (0 if kept[1] is None else len(orjson.dumps(kept[1].said)))


def _weight_of_children(kept: _Children) -> int:
    return _WEIGHT_OF_ANY + len(orjson.dumps(kept[1]))


class RoomSummaries:
    def __init__(self, server_name: str, database: Database, rooms: RoomGraph) -> None:
        self._server_name = server_name
        self._database = database
        self._rooms = rooms
        self._kept: WeightedCache[str, tuple[int, RoomSummary | None]] = WeightedCache(
            MOST_BYTES, _weight_of_summary
        )
        self._children: WeightedCache[tuple[str, bool], _Children] = WeightedCache(
            MOST_BYTES, _weight_of_children
        )

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
        shown = await self._rooms.apply_redactions(list(events.values()))
        made = children_of(shown, suggested_only=suggested_only)
        self._children[key] = (view.generation, made)
        return made

    async def _summary(self, row: RoomRow) -> RoomSummary | None:
        kept = self._kept.get(row.room_id)
        if kept is not None and kept[0] == row.generation:
            return kept[1]
        made = await self._made(row)
        self._kept[row.room_id] = (row.generation, made)
        return made

    async def _made(self, row: RoomRow) -> RoomSummary | None:
        async with self._database.transaction(readonly=True) as connection:
            joined = await count_joined_by_server(connection, row.room_id)
        if self._server_name not in joined:
            return None
        state = await self._rooms.current_events(row.room_id, SUMMARISED)
        words = await self._rooms.apply_redactions([state[key] for key in WORDS if key in state])
        assert CREATE in state, "a room that somebody is in has been created"
        state |= {pdu.key: pdu for pdu in words if pdu.key is not None}
        return summarised(ROOM_VERSIONS[row.version], state, sum(joined.values()))
