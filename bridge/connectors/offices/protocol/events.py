"""The protocol's events: who says them to whom, what they must hold, and since when there are such.

Whether what was said has the form of its event.

What a connection says of itself in its CONNECT, beside its token: what it can read that the protocol does
not have.

`{"token": …, "palaver": {"tasks": true}}`: the Agent reads tasks. The reference server, and whoever knows
nothing of it, passes over that key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from bridge.connectors.offices.protocol.versions import Line

NAMESPACE: Final = "/smcp"


class Kind(Enum):
    """What a field holds. A name is text that is not empty and that can be shown."""

    NAME = "a name"
    TEXT = "text"
    OBJECT = "an object"
    NATURAL = "a whole number from 0 on"
    FLAG = "true or false"
    ROLE = '"agent" or "computer"'


Fields = Mapping[str, Kind]


@dataclass(frozen=True, slots=True)
class Event:
    """`since` is the protocol's line from which on a Computer understands it; None: from the beginning.
    `optional` fields may be missing, and may be null."""

    name: str
    required: Fields
    optional: Fields
    since: Line | None = None


_CALLER: Final[Fields] = {"agent": Kind.TEXT, "req_id": Kind.NAME}
_CALL: Final[Fields] = {**_CALLER, "computer": Kind.NAME}
_V02: Final = Line(0, 2)
_V04: Final = Line(0, 4)

TOOL_CALL: Final = "client:tool_call"
_CLIENT: Final = (
    Event(TOOL_CALL, {**_CALL, "tool_name": Kind.NAME, "params": Kind.OBJECT, "timeout": Kind.NATURAL}, {}),
    Event("client:get_config", _CALL, {}),
    Event("client:get_tools", _CALL, {}),
    Event("client:get_desktop", _CALL, {"desktop_size": Kind.NATURAL, "window": Kind.TEXT}),
    Event("client:get_resources", {**_CALL, "mcp_server": Kind.NAME}, {"cursor": Kind.TEXT}, _V02),
    Event("client:get_skills", _CALL, {}, _V02),
    Event("client:get_skill", {**_CALL, "name": Kind.TEXT}, {"rel_path": Kind.TEXT}, _V02),
    Event(
        "client:get_blob",
        {**_CALL, "blob_handle": Kind.TEXT},
        {"chunk_offset": Kind.NATURAL, "max_chunk_bytes": Kind.NATURAL},
        _V02,
    ),
    Event(
        "client:put_blob",
        {**_CALL, "chunk_offset": Kind.NATURAL, "eof": Kind.FLAG, "blob": Kind.TEXT},
        {
            "upload_id": Kind.TEXT,
            "total_size": Kind.NATURAL,
            "sha256": Kind.TEXT,
            "name_hint": Kind.TEXT,
        },
        _V04,
    ),
)

JOIN: Final = "server:join_office"
LEAVE: Final = "server:leave_office"
LIST: Final = "server:list_room"
CANCEL: Final = "server:tool_call_cancel"
_SERVER: Final = (
    Event(JOIN, {"role": Kind.ROLE, "name": Kind.NAME, "office_id": Kind.NAME}, {}),
    Event(LEAVE, {"office_id": Kind.NAME}, {}),
    Event(LIST, {**_CALLER, "office_id": Kind.NAME}, {}),
    Event(CANCEL, _CALLER, {}),
    *(
        Event(f"server:{update}", {"computer": Kind.TEXT}, {})
        for update in ("update_config", "update_tool_list", "update_desktop", "update_skills")
    ),
)

CLIENT_EVENTS: Final[Mapping[str, Event]] = {event.name: event for event in _CLIENT}
"""From an Agent to one Computer, whose answer is the answer."""
SERVER_EVENTS: Final[Mapping[str, Event]] = {event.name: event for event in _SERVER}
"""To the server."""
UPDATES: Final[Mapping[str, str]] = {
    name: name.replace("server:", "notify:", 1) for name in SERVER_EVENTS if name.startswith("server:update_")
}
"""What a Computer says has changed, and as what the others in its office are told."""

ENTERED: Final = "notify:enter_office"
LEFT: Final = "notify:leave_office"
CANCELLED: Final = "notify:tool_call_cancel"


MOST_BYTES: Final = 255
"""Of a name."""
MOST_TEXT: Final = 1_000_000
"""Characters of a text: a frame of the transport holds no more."""
ROLES: Final = frozenset({"agent", "computer"})
_GREATEST: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Malformed:
    """The sentence names the field."""

    sentence: str


def malformed(event: Event, said: object) -> Malformed | None:
    """What is wrong with it. Fields that the protocol does not have are nobody's business but the other
    side's."""
    if not isinstance(said, Mapping):
        return Malformed(f"{event.name} takes an object")
    for name, kind in event.required.items():
        if name not in said:
            return Malformed(f"field '{name}' is missing")
        if not is_kind(said[name], kind):
            return Malformed(f"field '{name}' must be {kind.value}")
    for name, kind in event.optional.items():
        if said.get(name) is not None and not is_kind(said[name], kind):
            return Malformed(f"field '{name}' must be {kind.value}")
    return None


def is_kind(value: Any, kind: Kind) -> bool:
    match kind:
        case Kind.NAME:
            return isinstance(value, str) and is_name(value)
        case Kind.TEXT:
            return isinstance(value, str) and len(value) <= MOST_TEXT
        case Kind.OBJECT:
            return isinstance(value, dict)
        case Kind.NATURAL:
            return type(value) is int and 0 <= value <= _GREATEST
        case Kind.FLAG:
            return type(value) is bool
        case Kind.ROLE:
            return isinstance(value, str) and value in ROLES


def is_name(text: str) -> bool:
    """It is shown to people, and becomes part of a user's id."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # halves of characters
        return False
    return 0 < size <= MOST_BYTES and text.isprintable() and text == text.strip()


KEY: Final = "palaver"
TASKS: Final = "tasks"


def reads_tasks(auth: object) -> bool:
    """`auth` is what a stranger has sent."""
    said = auth.get(KEY) if isinstance(auth, Mapping) else None
    return isinstance(said, Mapping) and said.get(TASKS) is True
