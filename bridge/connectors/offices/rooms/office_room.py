"""The room of an office, `#office-{office_id}:{server}`, and what stands in its state.

Who is in an office is an agent there: "a member's address local part is `{office_id}/{name}`, because a name
alone is unique only within its office".
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
"""The room's type, and state of it: which office this is, and whose."""
MEMBER: Final = "io.a2c.office.member"
"""State under the user of each member, which says it of itself: the room's rules let nobody else. Empty for
one that has left."""
SEAT: Final = "io.a2c.office.agent"
"""State with an empty key: "at most one Agent"."""
TOOLS: Final = "io.a2c.office.tools"
"""State under the key of each Computer."""

FREE: Final[dict[str, Any]] = {}
"""A seat in which nobody sits, and a member that is gone."""

STATE_LEVEL: Final = 50
"""Who may say what the office is, and who may be in it: its node."""
LONGEST_LOCAL: Final = 160
"""Bytes of a member's local part as a ghost has it. A ghost has 255, a prefix and its server among them."""
LONGEST_SHOWN: Final = 120

ALIAS_KIND: Final = "office"
"""How aliases of offices begin."""
_PREFIX: Final = f"{ALIAS_KIND}-"
_KEY: Final = "offices/"
_SLASH: Final = "/"
# An address holds no @. What is escaped as a ghost anyway, and rare, marks the others.
_ESCAPED: Final = re.compile(r"[=@/]")
_ESCAPE: Final = re.compile(r"=(3d|40|2f)")
# No text is escaped so: behind a `=` there are two hexadecimal digits.
_HASH: Final = "=sha256-"
_HASH_DIGITS: Final = 40
_HASHED_ALIAS: Final = re.compile(f"{_PREFIX}{_HASH}[0-9a-f]{{{_HASH_DIGITS}}}")


# -- the room --


def alias_localpart(office_id: str, server: str) -> str:
    """What stands before the colon; with a hash in place of an id that has no room there."""
    name = f"{_PREFIX}{escape(office_id)}"
    return name if has_valid_length(f"#{name}:{server}") else f"{_PREFIX}{_hash(office_id)}"


def parse_alias_localpart(localpart: str) -> str | None:
    """The office's id; None for another room, and for one whose id is a hash there."""
    if not localpart.startswith(_PREFIX):
        return None
    office_id = unescape(localpart.removeprefix(_PREFIX))
    return office_id if office_id is not None and is_name(office_id) else None


def is_hashed_alias(localpart: str) -> bool:
    """Whether a hash stands in place of an id."""
    return _HASHED_ALIAS.fullmatch(localpart) is not None


def alias(office_id: str, server: str) -> str:
    return f"#{alias_localpart(office_id, server)}:{server}"


def room_key(office_id: str) -> str:
    """Under which its room is made; with a hash in place of an id that has no room there. No id begins with a
    blank."""
    key = f"{_KEY}{office_id}"
    return key if has_valid_length(key) else f"{_KEY} {_hash(office_id)}"


def request_for(office_id: str, settings: PeopleSettings, nodes: Sequence[str] = ()) -> CreateRoomRequest:
    """Asked for again it is the same room. Who calls what is everybody's to see who may come in; the state
    is not everybody's to write."""
    shown = one_line(office_id, LONGEST_SHOWN)
    return CreateRoomRequest(
        creator=settings.node_user,
        version=settings.room_version,
        preset="public_chat",
        room_type=OFFICE,
        name=f"Office {shown}",
        topic=(
            "An Agent calls the tools of Computers here (A2C-SMCP). Each call is a thread, and its result is"
            " in there. Where people are asked first, ✅ lets a call and ❌ refuses it."
        ),
        alias=alias_localpart(office_id, settings.names.domain),
        listed=settings.is_listed,
        initial_state=(InitialState(OFFICE, own_office(office_id, settings, nodes)),),
        power_levels={
            "invite": 50,
            "state_default": STATE_LEVEL,
            # Each for itself. Who may be a member at all stands in the office's state.
            "events": {MEMBER: 0, SEAT: 0, TOOLS: 0},
        },
        join_rule=settings.join_rule,
        key=room_key(office_id),
    )


# -- its state --


def office_content(office_id: str, node_id: str, members: Sequence[str] = ()) -> dict[str, Any]:
    """`members` says whose users may be in it: servers, and users by pattern."""
    return {"office_id": office_id, "node": node_id, "members": list(members)}


def own_office(office_id: str, settings: PeopleSettings, nodes: Sequence[str]) -> dict[str, Any]:
    """Of one that lives here, in which members of this node may be, and of these."""
    return office_content(office_id, settings.node_id, (own_members(settings.node_user), *nodes))


def own_members(node_user: str) -> str:
    """The pattern of the users as whom this node's members appear: its own user is one of those."""
    local, _, server = node_user.partition(":")
    return f"{local.removesuffix(NODE_USER)}{STAR}:{server}"


def member_content(
    role: str, name: str, node_id: str, version: ProtocolVersion | None, since_ms: int, box: str = ""
) -> dict[str, Any]:
    """`version` is None for a client of before there were any, and then nothing is said of it. `box` is the
    key for what only its node is to read."""
    said = {} if version is None else {"a2c_version": str(version)}
    sealed = {"box": box} if box else {}
    return {"role": role, "name": name, "node": node_id, **said, "since": since_ms, **sealed}


def seat_content(agent: AgentAddress, user: str, since_ms: int) -> dict[str, Any]:
    """Of the Agent that sits there, said by itself; `FREE` if nobody does."""
    return {"user": user, "address": str(agent), "node": agent.node_id, "since": since_ms}


def state_key(member: AgentAddress) -> str:
    """Its address, of which a key holds 255 bytes."""
    address = str(member)
    return address if has_valid_length(address) else _hash(address)


# -- its members --


def member_address(office_id: str, name: str, node_id: str) -> AgentAddress:
    """Of what are names as `shape.is_name` has them, at a node that is one. A hash takes the place of what is
    too long, first of the longer one: the same on every node."""
    parts = [_part(office_id), _part(name)]
    while _ghost_size(parts) > LONGEST_LOCAL:
        longer = 0 if _ghost_size(parts[:1]) >= _ghost_size(parts[1:]) else 1
        parts[longer] = _hash((office_id, name)[longer])
    return AgentAddress(_SLASH.join(parts), node_id)


def member_of(address: AgentAddress) -> tuple[str, str] | None:
    """Office and name; None for an agent that is no member of an office, and where a hash stands for one of
    them."""
    parts = address.agent_id.split(_SLASH)
    if len(parts) != 2:
        return None
    office_id, name = (_unescaped(part) for part in parts)
    if not is_name(office_id) or not is_name(name):
        return None
    return (office_id, name) if member_address(office_id, name, address.node_id) == address else None


def _part(text: str) -> str:
    """`=`, `@` and `/` as the house escapes them: `=` and two hexadecimal digits. What else a ghost cannot be
    called is escaped there, once."""
    return _ESCAPED.sub(lambda found: f"={ord(found[0]):02x}", text)


def _unescaped(part: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), part)


def _ghost_size(parts: list[str]) -> int:
    return len(escape(_SLASH.join(parts)))


def _hash(text: str) -> str:
    return f"{_HASH}{sha256(text.encode()).hexdigest()[:_HASH_DIGITS]}"
