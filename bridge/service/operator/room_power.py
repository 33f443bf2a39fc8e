"""The power levels of a room in few lines."""

from collections.abc import Mapping
from typing import Any, Final

from federation.auth_rules.levels import read_level
from federation.room_version import RoomVersion

MOST_USERS: Final = 20
# With what holds where the event does not say.
_LEVELS: Final = (
    ("users_default", 0),
    ("events_default", 0),
    ("state_default", 50),
    ("invite", 0),
    ("kick", 50),
    ("ban", 50),
    ("redact", 50),
)


def power(content: Mapping[str, Any] | None, version: RoomVersion) -> dict[str, Any]:
    """`users` are the mightiest of those that the event names. Without an event the creator has 100; and from
    version 12 on the creators, who are not in it, may do everything."""
    said = content if content is not None else {}
    users = said.get("users")
    levels = {
        user: level
        for user, value in (users.items() if isinstance(users, dict) else ())
        if (level := read_level(value, version)) is not None
    }
    mightiest = sorted(levels.items(), key=lambda one: (-one[1], one[0]))[:MOST_USERS]
    return {
        "is_set": content is not None,
        "users": dict(mightiest),
        "users_left_out": len(levels) - len(mightiest),
        **{name: _level(said.get(name), default, version) for name, default in _LEVELS},
    }


def _level(value: Any, default: int, version: RoomVersion) -> int:
    level = read_level(value, version)
    return default if level is None else level
