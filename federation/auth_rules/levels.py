"""The power levels in a state: those of users, and those that actions require."""

import math
from collections.abc import Mapping
from typing import Any, Final, Protocol

from federation.matrix.room_version import RoomVersion

Level = int | float
"""An integer, or infinity for creators from room version 12 on. Infinity is not used outside this package."""

# "Invite Level, Kick Level, Ban Level, Redact Level: the levels given by the `invite`, `kick`, `ban`, and
# `redact` properties in the current `m.room.power_levels` state", with these defaults.
_DEFAULTS: Final[Mapping[str, int]] = {"ban": 50, "invite": 0, "kick": 50, "redact": 50}


class StateEvent(Protocol):
    """The fields of a state event that are needed here."""

    @property
    def sender(self) -> str: ...

    @property
    def content(self) -> Mapping[str, Any]: ...


def read_level(value: object, version: RoomVersion) -> int | None:
    """Parse a level. None if it is invalid.

    Until room version 9 servers accepted what Python's `int` accepts: "050", " +5 ", 5.9, and beyond the
    specification "1_0" and True. Rooms have such levels, and all servers must parse them alike.
    """
    if type(value) is int:
        return value
    if version.integer_power_levels or not isinstance(value, str | float | bool):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):  # not a number; NaN or infinity; more digits than Python converts
        return None


def creators(create: StateEvent, version: RoomVersion) -> frozenset[str]:
    """Version 12: "the `sender` of the `m.room.create` event" and "any user IDs contained in the
    `additional_creators` array in `content`"; before there is one."""
    if version.creators_have_infinite_power:
        additional = create.content.get("additional_creators")
        also = (user for user in additional if isinstance(user, str)) if isinstance(additional, list) else ()
        return frozenset((create.sender, *also))
    creator = create.content.get("creator") if version.creator_in_content else create.sender
    return frozenset((creator,)) if isinstance(creator, str) else frozenset()


class PowerLevels:
    """The power levels of one state. They are parsed on demand, because a room may have thousands of
    users."""

    __slots__ = ("_content", "_creators", "_users", "_version")

    def __init__(self, create: StateEvent | None, power_levels: StateEvent | None, version: RoomVersion) -> None:
        self._version = version
        self._content: Mapping[str, Any] | None = power_levels.content if power_levels is not None else None
        users = self._content.get("users") if self._content is not None else None
        self._users: Mapping[str, Any] = users if isinstance(users, dict) else {}
        self._creators = creators(create, version) if create is not None else frozenset()

    def of_user(self, user: str) -> Level:
        """The user's power level."""
        if user in self._creators:
            # "The power level of "room creators" is infinitely high."
            if self._version.creators_have_infinite_power:
                return math.inf
            # Without power levels the creator has 100 and all other users have 0.
            if self._content is None:
                return 100
        if self._content is None:
            return 0
        level = read_level(self._users.get(user), self._version)
        if level is None:
            level = read_level(self._content.get("users_default"), self._version)
        return 0 if level is None else level

    def of_action(self, action: str) -> int:
        """The *invite*, *kick*, *ban* or *redact level*."""
        level = read_level(self._content.get(action), self._version) if self._content is not None else None
        return _DEFAULTS[action] if level is None else level

    def required_for(self, type_: str, *, is_state: bool) -> int:
        """The *required power level*: "either listed explicitly in the `events` section or given by either
        `state_default` or `events_default` depending on if the event is a state event or not". Also without
        an `m.room.power_levels` event they are 50 and 0."""
        content = self._content if self._content is not None else {}
        events = content.get("events")
        level = read_level(events.get(type_), self._version) if isinstance(events, dict) else None
        if level is None:
            level = read_level(content.get("state_default" if is_state else "events_default"), self._version)
        if level is None:
            level = 50 if is_state else 0
        return level
