"""How a homeserver is asked for the room in which another one goes on: by the same steps as a node that is a
homeserver itself, since a homeserver's own upgrade takes along what it thinks best."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appservice.room_making import Making, body_of
from federation.new_event import NewEvent
from federation.room_event import RoomEvent
from federation.room_upgrade import Upgrade

ALIAS: Final = "m.room.canonical_alias"
_CREATE: Final = "m.room.create"
_MEMBER: Final = "m.room.member"
_POWER_LEVELS: Final = "m.room.power_levels"


@dataclass(frozen=True, slots=True)
class Moving:
    """First the room is made, then bans are said in it, and last who may do what from then on."""

    making: Making
    bans: tuple[NewEvent, ...]
    levels: Mapping[str, Any]


def moving(planned: Upgrade, user: str, mark: str, *, listed: bool) -> Moving:
    """The names of the old room are given to the new one when it is there."""
    create = next(event for event in planned.events if event.type == _CREATE)
    levels = [event for event in planned.events if event.type == _POWER_LEVELS]
    apart = {_CREATE, _MEMBER, _POWER_LEVELS, ALIAS}
    state = tuple(event for event in planned.events if event.type not in apart)
    bans = tuple(
        event
        for event in planned.events
        if event.type == _MEMBER and event.content.get("membership") == "ban"
    )
    body = body_of(planned.version, create, levels[0], state, mark, listed=listed)
    return Moving(Making(user, body, None, levels[0].content, state), bans, levels[-1].content)


def names_in(alias: RoomEvent | None) -> list[str]:
    """The aliases that a room says it has, the first of which it is called by."""
    content = {} if alias is None else alias.content
    further = content.get("alt_aliases")
    named = [content.get("alias"), *(further if isinstance(further, list) else ())]
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def renamed(alias: RoomEvent | None, moved: Iterable[str]) -> dict[str, Any] | None:
    """What the new room says of its names, of those that lead to it now. None if it has none to say."""
    there = set(moved)
    names = [name for name in names_in(alias) if name in there]
    if alias is None or not names:
        return None
    first = alias.content.get("alias")
    said: dict[str, Any] = {"alias": first} if first in names else {}
    further = [name for name in names if name != first]
    return {**said, "alt_aliases": further} if further else said
