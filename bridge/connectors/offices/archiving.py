"""Rooms of offices in which nothing happens any more: when they are archived, and what is said of it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from bridge.people.text import Text
from bridge.time_text import duration
from federation.room_event import RoomEvent

ARCHIVED: Final = "archived"
"""In the state `io.a2c.office`; not there for an office that is in use."""

_LOOKS: Final = 10
_SOONEST, _LATEST = 1.0, 3_600.0


def look_every(after: float | None) -> float:
    """Seconds between two looks for what has not been used for so many seconds; None: nothing is archived."""
    return _LATEST if after is None else min(_LATEST, max(_SOONEST, after / _LOOKS))


def archived_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """All else that the room says of its office stays."""
    return {**content, ARCHIVED: True}


def used_content(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: said for name, said in content.items() if name != ARCHIVED}


def is_somebody_there(
    said: Iterable[RoomEvent], joined: Collection[str], is_ours: Callable[[str], bool]
) -> bool:
    """Of other nodes, whose members are nowhere but in the room: each says it of itself, and is there as long
    as it is in the room. Who has left says nothing."""
    return any(one.content and one.sender in joined and not is_ours(one.sender) for one in said)


def notice(unused_ms: int) -> Text:
    """To people. `unused_ms`: for how long it has not been used."""
    return Text.of(
        f"📦 Nobody has been in this office for {duration(unused_ms)}, so it is archived: it is in no list of"
        " rooms any more. Whoever joins the office next brings it back."
    )
