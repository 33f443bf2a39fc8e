"""What an EDU says, once it has been read. Every user in one belongs to the server that sent it.

How much one EDU may hold.

What the readers of EDUs ask of single fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation.matrix.identifiers import domain, fits, is_event_id, is_room_id, is_user_id


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


MAX_TO_DEVICE_BYTES: Final = 65_536
"""A to-device message that is larger than an event may be is refused: one that nobody can take in blocks the
queue of its sender for ever."""

MAX_PRESENCES: Final = 50
"""As many users as Synapse puts into one presence EDU, and as many as we read of one."""

MAX_RECEIPTS: Final = 1_000
"""More than anybody puts into one EDU; what is beyond is not read."""

MAX_STATUS_BYTES: Final = 1_024
MAX_MESSAGE_ID_BYTES: Final = 255
"""The specification says 32 code points. Nobody refuses longer ones."""

MAX_OWN_EDU_BYTES: Final = 8 * 1024 * 1024
"""Of an EDU that only servers of our kind know, and that need not arrive. With fifty events beside it it fits
into what they take in at once."""


MAX_INTEGER: Final = 2**53 - 1


class Unreadable(Exception):
    """Why the EDU is none. It never leaves this package."""


def text_in(content: Mapping[str, Any], name: str) -> str:
    """A short string without NUL, which no database column holds."""
    value = content.get(name)
    if not isinstance(value, str) or "\0" in value or not fits(value):
        raise Unreadable(f"{name} is not a string that it could be")
    return value


def optional_object(content: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = content.get(name)
    return value if isinstance(value, dict) else None


def integer_in(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name)
    if not is_natural(value):
        raise Unreadable(f"{name} is not an integer")
    assert isinstance(value, int), "a natural number is an integer"
    return value


def is_natural(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def user_of(origin: str, content: Mapping[str, Any], name: str) -> str:
    """In all EDUs: a user's domain must be the server that sends."""
    user = content.get(name)
    if not belongs_to(origin, user):
        raise Unreadable(f"{name} is not a user of the server that sends")
    assert isinstance(user, str), "what belongs to a server is a user id"
    return user


def belongs_to(origin: str, user: object) -> bool:
    return isinstance(user, str) and is_user_id(user) and domain(user) == origin


def room_in(content: Mapping[str, Any], name: str) -> str:
    room_id = content.get(name)
    if not isinstance(room_id, str) or not is_room_id(room_id):
        raise Unreadable(f"{name} is not a room id")
    return room_id


def is_event(value: object) -> bool:
    return isinstance(value, str) and is_event_id(value)
