"""What an EDU says, once it has been read. Every user in one belongs to the server that sent it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Typing:
    room_id: str
    user_id: str
    typing: bool


@dataclass(frozen=True, slots=True)
class Receipt:
    """How far a user has read in a room, or in one thread of it."""

    room_id: str
    user_id: str
    event_id: str
    ts: int
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class Receipts:
    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, slots=True)
class PresenceOfUser:
    """`presence` is `online`, `unavailable` or `offline`; `last_active_ago` is in milliseconds."""

    user_id: str
    presence: str
    last_active_ago: int | None = None
    currently_active: bool = False
    status_msg: str | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    users: tuple[PresenceOfUser, ...]


@dataclass(frozen=True, slots=True)
class DeviceListUpdate:
    """When a `prev_id` is unknown, the whole list has to be asked for."""

    user_id: str
    device_id: str
    stream_id: int
    prev_ids: tuple[int, ...]
    deleted: bool
    display_name: str | None
    keys: Mapping[str, Any] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToDevice:
    """`messages`: by user, by device (`*` for all of a user's), the content. The same `message_id` of one
    server is the same message."""

    sender: str
    type: str
    message_id: str
    messages: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SigningKeyUpdate:
    user_id: str
    master_key: Mapping[str, Any] | None = field(repr=False)
    self_signing_key: Mapping[str, Any] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Other:
    """A type that the specification does not have. Nothing of its content has been checked."""

    edu_type: str
    content: Mapping[str, Any] = field(repr=False)


Edu = Typing | Receipts | Presence | DeviceListUpdate | ToDevice | SigningKeyUpdate | Other
