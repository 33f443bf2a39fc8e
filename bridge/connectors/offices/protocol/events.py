"""The protocol's events: direction, required and optional fields, and the protocol version that added them.

It also reads the extension key of the CONNECT payload: `{"token": …, "palaver": {"tasks": true}}` declares
that an Agent accepts tasks, which the protocol itself does not have. The reference server and other servers
ignore that key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from bridge.connectors.offices.protocol.versions import ProtocolLine

NAMESPACE: Final = "/smcp"


class FieldKind(Enum):
    """What a field holds. A name is printable text that is not empty."""

    NAME = "a name"
    TEXT = "text"
    OBJECT = "an object"
    NATURAL = "a non-negative integer"
    FLAG = "true or false"
    ROLE = '"agent" or "computer"'


Fields = Mapping[str, FieldKind]


@dataclass(frozen=True, slots=True)
class Event:
    """`since` is the first protocol line in which a Computer supports the event; None: all of them do.
    `optional` fields may be missing or null."""

    name: str
    required: Fields
    optional: Fields
    since: ProtocolLine | None = None


_CALLER: Final[Fields] = {"agent": FieldKind.TEXT, "req_id": FieldKind.NAME}
_CALL: Final[Fields] = {**_CALLER, "computer": FieldKind.NAME}
_V02: Final = ProtocolLine(0, 2)
_V04: Final = ProtocolLine(0, 4)

TOOL_CALL: Final = "client:tool_call"
_CLIENT: Final = (
    Event(
        TOOL_CALL, {**_CALL, "tool_name": FieldKind.NAME, "params": FieldKind.OBJECT, "timeout": FieldKind.NATURAL}, {}
    ),
    Event("client:get_config", _CALL, {}),
    Event("client:get_tools", _CALL, {}),
    Event("client:get_desktop", _CALL, {"desktop_size": FieldKind.NATURAL, "window": FieldKind.TEXT}),
    Event("client:get_resources", {**_CALL, "mcp_server": FieldKind.NAME}, {"cursor": FieldKind.TEXT}, _V02),
    Event("client:get_skills", _CALL, {}, _V02),
    Event("client:get_skill", {**_CALL, "name": FieldKind.TEXT}, {"rel_path": FieldKind.TEXT}, _V02),
    Event(
        "client:get_blob",
        {**_CALL, "blob_handle": FieldKind.TEXT},
        {"chunk_offset": FieldKind.NATURAL, "max_chunk_bytes": FieldKind.NATURAL},
        _V02,
    ),
    Event(
        "client:put_blob",
        {**_CALL, "chunk_offset": FieldKind.NATURAL, "eof": FieldKind.FLAG, "blob": FieldKind.TEXT},
        {
            "upload_id": FieldKind.TEXT,
            "total_size": FieldKind.NATURAL,
            "sha256": FieldKind.TEXT,
            "name_hint": FieldKind.TEXT,
        },
        _V04,
    ),
)

JOIN: Final = "server:join_office"
LEAVE: Final = "server:leave_office"
LIST: Final = "server:list_room"
CANCEL: Final = "server:tool_call_cancel"
_SERVER: Final = (
    Event(JOIN, {"role": FieldKind.ROLE, "name": FieldKind.NAME, "office_id": FieldKind.NAME}, {}),
    Event(LEAVE, {"office_id": FieldKind.NAME}, {}),
    Event(LIST, {**_CALLER, "office_id": FieldKind.NAME}, {}),
    Event(CANCEL, _CALLER, {}),
    *(
        Event(f"server:{update}", {"computer": FieldKind.TEXT}, {})
        for update in ("update_config", "update_tool_list", "update_desktop", "update_skills")
    ),
)

CLIENT_EVENTS: Final[Mapping[str, Event]] = {event.name: event for event in _CLIENT}
"""From an Agent to one Computer; the Computer's acknowledgement is relayed to the Agent."""
SERVER_EVENTS: Final[Mapping[str, Event]] = {event.name: event for event in _SERVER}
"""From a client to the server."""
UPDATES: Final[Mapping[str, str]] = {
    name: name.replace("server:", "notify:", 1) for name in SERVER_EVENTS if name.startswith("server:update_")
}
"""A Computer's update event, and the notification that the other members of its office receive for it."""

ENTERED: Final = "notify:enter_office"
LEFT: Final = "notify:leave_office"
CANCELLED: Final = "notify:tool_call_cancel"


MAX_NAME_BYTES: Final = 255
MAX_TEXT_LENGTH: Final = 1_000_000
"""Characters of a text field: a transport frame holds no more."""
ROLES: Final = frozenset({"agent", "computer"})
_MAX_INTEGER: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class MalformedField:
    """`message` names the field and what it must be."""

    message: str


def find_malformed_field(event: Event, payload: object) -> MalformedField | None:
    """The first violation, or None. Fields that the protocol does not define are not checked: they are passed
    on to the receiver."""
    if not isinstance(payload, Mapping):
        return MalformedField(f"{event.name} takes an object")
    for name, kind in event.required.items():
        if name not in payload:
            return MalformedField(f"field '{name}' is missing")
        if not is_kind(payload[name], kind):
            return MalformedField(f"field '{name}' must be {kind.value}")
    for name, kind in event.optional.items():
        if payload.get(name) is not None and not is_kind(payload[name], kind):
            return MalformedField(f"field '{name}' must be {kind.value}")
    return None


def is_kind(value: Any, kind: FieldKind) -> bool:
    match kind:
        case FieldKind.NAME:
            return isinstance(value, str) and is_name(value)
        case FieldKind.TEXT:
            return isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH
        case FieldKind.OBJECT:
            return isinstance(value, dict)
        case FieldKind.NATURAL:
            return type(value) is int and 0 <= value <= _MAX_INTEGER
        case FieldKind.FLAG:
            return type(value) is bool
        case FieldKind.ROLE:
            return isinstance(value, str) and value in ROLES


def is_name(text: str) -> bool:
    """Whether text can be a name: people read names, and they become part of Matrix user ids."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # lone surrogates
        return False
    return 0 < size <= MAX_NAME_BYTES and text.isprintable() and text == text.strip()


EXTENSION_KEY: Final = "palaver"
TASKS: Final = "tasks"


def reads_tasks(auth: object) -> bool:
    """Whether the CONNECT payload `auth`, which may be anything, declares that the Agent accepts tasks."""
    extension = auth.get(EXTENSION_KEY) if isinstance(auth, Mapping) else None
    return isinstance(extension, Mapping) and extension.get(TASKS) is True
