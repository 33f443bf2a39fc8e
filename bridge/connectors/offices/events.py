"""The protocol's events: who says them to whom, what they must hold, and since when there are such."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bridge.connectors.offices.protocol_version import Line

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
