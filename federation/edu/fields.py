"""What the readers of EDUs ask of single fields."""

from collections.abc import Mapping
from typing import Any, Final

from federation.identifiers import domain, fits, is_event_id, is_room_id, is_user_id

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
