"""What is said of a room to somebody who is not in it: in a list of rooms, in a space.

Client-server API, "Published room directory" and "Spaces"; the server-server API says the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation.auth_rules.auth_event_selection import CREATE, JOIN_RULES
from federation.auth_rules.room_state import RoomState
from federation.history_visibility import HISTORY_VISIBILITY
from federation.identifiers import domain, is_room_alias, is_room_id
from federation.membership_template import ACL
from federation.pdu import Pdu, StateKey
from federation.restricted_joins import MOST_CONDITIONS, rooms_that_admit
from federation.room_version import RoomVersion
from federation.server_acl import ServerAcl, server_acl

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
    admitting = rooms_that_admit(state, version)
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
        ids = [one for one in allowed[:MOST_CONDITIONS] if isinstance(one, str) and is_room_id(one)]
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
