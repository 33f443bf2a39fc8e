"""Whether what was said has the form of its event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.connectors.offices.events import Event, Kind

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
