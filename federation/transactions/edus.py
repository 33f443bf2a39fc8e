"""Parsed EDUs, their size limits, and the checks of single fields.

Every user that a parsed EDU names belongs to the server that sent it, except the recipients of to-device
messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from federation.matrix.identifiers import domain, has_valid_length, is_event_id, is_room_id, is_user_id

PresenceState = Literal["online", "unavailable", "offline"]


@dataclass(frozen=True, slots=True)
class Typing:
    room_id: str
    user_id: str
    typing: bool


@dataclass(frozen=True, slots=True)
class Receipt:
    """A read receipt: up to which event a user has read a room, or one thread of it."""

    room_id: str
    user_id: str
    event_id: str
    ts: int
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class Receipts:
    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, slots=True)
class UserPresence:
    """`presence` is `online`, `unavailable` or `offline`; `last_active_ago` is in milliseconds."""

    user_id: str
    presence: str
    last_active_ago: int | None = None
    currently_active: bool = False
    status_msg: str | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    users: tuple[UserPresence, ...]


@dataclass(frozen=True, slots=True)
class DeviceListUpdate:
    """A change of one device. If the receiver does not know a `prev_id`, it has to query the whole device
    list."""

    user_id: str
    device_id: str
    stream_id: int
    prev_ids: tuple[int, ...]
    deleted: bool
    display_name: str | None
    keys: Mapping[str, Any] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToDevice:
    """`messages` maps user, then device (`*` for all devices of the user), to the content. A server uses a
    `message_id` for one message only."""

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
class CustomEdu:
    """An EDU of a type that the specification does not define. Its content has not been validated."""

    edu_type: str
    content: Mapping[str, Any] = field(repr=False)


Edu = Typing | Receipts | Presence | DeviceListUpdate | ToDevice | SigningKeyUpdate | CustomEdu


MAX_TO_DEVICE_BYTES: Final = 65_536
"""A to-device message larger than the largest event is refused: if receivers could not accept it, it would
block its sender's queue for ever."""

MAX_PRESENCES: Final = 50
"""The number of users that Synapse puts into one presence EDU, and the most that are read from one."""

MAX_RECEIPTS: Final = 1_000
"""More than any known server puts into one EDU; the rest is ignored."""

MAX_STATUS_BYTES: Final = 1_024
MAX_MESSAGE_ID_BYTES: Final = 255
"""The specification says 32 code points, but no known server refuses longer ones."""

MAX_CUSTOM_EDU_BYTES: Final = 8 * 1024 * 1024
"""Limit for custom EDUs, which only Palaver servers handle and which may be lost. Together with fifty PDUs
such an EDU fits into the maximum request body of a peer."""


MAX_INTEGER: Final = 2**53 - 1


class InvalidEdu(Exception):
    """The EDU is invalid; the message says why. It is not raised out of this package."""


def require_text(content: Mapping[str, Any], name: str) -> str:
    """Return a string of at most 255 bytes without NUL, which Postgres cannot store."""
    value = content.get(name)
    if not isinstance(value, str) or "\0" in value or not has_valid_length(value):
        raise InvalidEdu(f"{name} is not a string, is too long, or contains NUL")
    return value


def optional_object(content: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = content.get(name)
    return value if isinstance(value, dict) else None


def require_integer(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name)
    if not is_natural(value):
        raise InvalidEdu(f"{name} is not a non-negative integer")
    assert isinstance(value, int), "a natural number is an integer"
    return value


def is_natural(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def require_user(origin: str, content: Mapping[str, Any], name: str) -> str:
    """Return the user id in this field, whose domain must be the sending server."""
    user = content.get(name)
    if not is_user_of(origin, user):
        raise InvalidEdu(f"{name} is not a user of the sending server")
    assert isinstance(user, str), "a user of a server has a user id"
    return user


def is_user_of(origin: str, user: object) -> bool:
    return isinstance(user, str) and is_user_id(user) and domain(user) == origin


def require_room_id(content: Mapping[str, Any], name: str) -> str:
    room_id = content.get(name)
    if not isinstance(room_id, str) or not is_room_id(room_id):
        raise InvalidEdu(f"{name} is not a room id")
    return room_id


def is_event_id_text(value: object) -> bool:
    return isinstance(value, str) and is_event_id(value)
