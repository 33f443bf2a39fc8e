"""The room of an office, `#office-{office_id}:{server}`, its state, and the addresses of its members.

Members of offices are agents: "a member's address local part is `{office_id}/{name}`, because a name alone is
unique only within its office".
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.matrix.ghost import NODE_USER
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import one_line
from federation.matrix.globs import STAR
from federation.matrix.identifiers import escape, has_valid_length, unescape
from federation.rooms.creation import CreateRoomRequest, InitialState

OFFICE: Final = "io.a2c.office"
"""The room type, and a state event that names the office and the node that hosts it."""
MEMBER: Final = "io.a2c.office.member"
"""State with the member's user id as key, sent by the member itself; the room's rules forbid it to other
users. Its content is empty after the member has left."""
SEAT: Final = "io.a2c.office.agent"
"""State with an empty key which names the one Agent of the office: "at most one Agent"."""
TOOLS: Final = "io.a2c.office.tools"
"""State with a Computer's user id as key."""

EMPTY: Final[dict[str, Any]] = {}
"""Content of the seat while there is no Agent, and of the state of a member that has left."""

STATE_LEVEL: Final = 50
"""Power level for the state that describes the office; the node that hosts it has it."""
MAX_LOCALPART: Final = 160
"""Bytes of a member's localpart as escaped in a user id, which has 255 bytes with its prefix and server."""
MAX_SHOWN_LENGTH: Final = 120

ALIAS_KIND: Final = "office"
"""The beginning of aliases of offices."""
_PREFIX: Final = f"{ALIAS_KIND}-"
_KEY: Final = "offices/"
_SLASH: Final = "/"
# `@` cannot appear in an address, `/` separates its parts, and `=` begins an escape: it is rare, and user ids
# escape it anyway.
_ESCAPED: Final = re.compile(r"[=@/]")
_ESCAPE: Final = re.compile(r"=(3d|40|2f)")
# No escaped text contains this: `=` is always followed by two hexadecimal digits.
_HASH: Final = "=sha256-"
_HASH_DIGITS: Final = 40
_HASHED_ALIAS: Final = re.compile(f"{_PREFIX}{_HASH}[0-9a-f]{{{_HASH_DIGITS}}}")


# -- the room --


def alias_localpart(office_id: str, server: str) -> str:
    """The alias without `#` and server; an office id that is too long is replaced by its hash."""
    name = f"{_PREFIX}{escape(office_id)}"
    return name if has_valid_length(f"#{name}:{server}") else f"{_PREFIX}{_hash(office_id)}"


def parse_alias_localpart(localpart: str) -> str | None:
    """The office id; None for aliases of other rooms, and for a hashed office id."""
    if not localpart.startswith(_PREFIX):
        return None
    office_id = unescape(localpart.removeprefix(_PREFIX))
    return office_id if office_id is not None and is_name(office_id) else None


def is_hashed_alias(localpart: str) -> bool:
    """Whether the alias contains a hash in place of the office id."""
    return _HASHED_ALIAS.fullmatch(localpart) is not None


def alias(office_id: str, server: str) -> str:
    return f"#{alias_localpart(office_id, server)}:{server}"


def room_key(office_id: str) -> str:
    """The key under which the room is created; an office id that is too long is replaced by its hash. The
    space in front of the hash prevents collisions: no office id begins with a space."""
    key = f"{_KEY}{office_id}"
    return key if has_valid_length(key) else f"{_KEY} {_hash(office_id)}"


def room_request(office_id: str, settings: PeopleSettings, nodes: Sequence[str] = ()) -> CreateRoomRequest:
    """Repeating the request returns the same room. Any user who can join sees the calls; only members and the
    node write state."""
    shown = one_line(office_id, MAX_SHOWN_LENGTH)
    return CreateRoomRequest(
        creator=settings.node_user,
        version=settings.room_version,
        preset="public_chat",
        room_type=OFFICE,
        name=f"Office {shown}",
        topic=(
            "An Agent calls the tools of Computers here (A2C-SMCP). Each call is a thread that contains its"
            " result. If a call needs approval, ✅ approves it and ❌ refuses it."
        ),
        alias=alias_localpart(office_id, settings.names.domain),
        listed=settings.is_listed,
        initial_state=(InitialState(OFFICE, local_office_content(office_id, settings, nodes)),),
        power_levels={
            "invite": 50,
            "state_default": STATE_LEVEL,
            # Each member sends its own state. The state of the office says who may be a member.
            "events": {MEMBER: 0, SEAT: 0, TOOLS: 0},
        },
        join_rule=settings.join_rule,
        key=room_key(office_id),
    )


# -- its state --


def office_content(office_id: str, node_id: str, members: Sequence[str] = ()) -> dict[str, Any]:
    """`members` lists who may be a member: servers, and user id patterns."""
    return {"office_id": office_id, "node": node_id, "members": list(members)}


def local_office_content(office_id: str, settings: PeopleSettings, nodes: Sequence[str]) -> dict[str, Any]:
    """For an office of this node, open to members of this node and of `nodes`."""
    return office_content(office_id, settings.node_id, (local_members_pattern(settings.node_user), *nodes))


def local_members_pattern(node_user: str) -> str:
    """A pattern that matches the users of this node's members, including the node's own user."""
    local, _, server = node_user.partition(":")
    return f"{local.removesuffix(NODE_USER)}{STAR}:{server}"


def member_content(
    role: str, name: str, node_id: str, version: ProtocolVersion | None, since_ms: int, public_key: str = ""
) -> dict[str, Any]:
    """`version` is omitted for a client that sent none. `public_key` is the key of the member's node for
    encrypted requests and answers; it is omitted if the office is not shared."""
    version_field = {} if version is None else {"a2c_version": str(version)}
    key_field = {"box": public_key} if public_key else {}
    return {"role": role, "name": name, "node": node_id, **version_field, "since": since_ms, **key_field}


def seat_content(agent: AgentAddress, user: str, since_ms: int) -> dict[str, Any]:
    """Sent by the Agent itself; `EMPTY` frees the seat."""
    return {"user": user, "address": str(agent), "node": agent.node_id, "since": since_ms}


def state_key(member: AgentAddress) -> str:
    """The address, or its hash if it exceeds the 255 bytes of a state key."""
    address = str(member)
    return address if has_valid_length(address) else _hash(address)


# -- its members --


def member_address(office_id: str, name: str, node_id: str) -> AgentAddress:
    """`office_id` and `name` must be valid names (`events.is_name`). If the address is too long, the longer
    part is replaced by its hash first, then the other; every node gets the same result."""
    parts = [_part(office_id), _part(name)]
    while _ghost_size(parts) > MAX_LOCALPART:
        longer = 0 if _ghost_size(parts[:1]) >= _ghost_size(parts[1:]) else 1
        parts[longer] = _hash((office_id, name)[longer])
    return AgentAddress(_SLASH.join(parts), node_id)


def member_of(address: AgentAddress) -> tuple[str, str] | None:
    """The office id and the member's name; None if the address is no member's, or contains a hash."""
    parts = address.agent_id.split(_SLASH)
    if len(parts) != 2:
        return None
    office_id, name = (_unescaped(part) for part in parts)
    if not is_name(office_id) or not is_name(name):
        return None
    return (office_id, name) if member_address(office_id, name, address.node_id) == address else None


def _part(text: str) -> str:
    """Escape `=`, `@` and `/` as `=` and two hexadecimal digits. Other characters that a user id cannot
    contain are escaped when the ghost is named."""
    return _ESCAPED.sub(lambda found: f"={ord(found[0]):02x}", text)


def _unescaped(part: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), part)


def _ghost_size(parts: list[str]) -> int:
    return len(escape(_SLASH.join(parts)))


def _hash(text: str) -> str:
    return f"{_HASH}{sha256(text.encode()).hexdigest()[:_HASH_DIGITS]}"
