"""The rooms of a space and of the spaces in it: what one server tells another of one level, and the walk
through all of them.

Client-server API and server-server API, "Spaces".
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from federation.directory.room_summary import SPACE, RoomSummary, read_summary
from federation.directory.spaces import Child, read_children, servers_of
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_room_id

MOST_ON_PAGE: Final = 50
"""Rooms on one page of a walk, and children that a server is told about at once. As in Synapse."""
MOST_BYTES: Final = 512 * 1024
"""Of the children that a server is told about at once. It asks for others by their ids."""
MOST_ROOMS: Final = 1_000
"""That a walk looks at, all pages together."""
MOST_DEPTH: Final = 10
"""How far a walk goes into a space. "Servers should apply a default value, and impose a maximum value to
avoid resource exhaustion." """
MOST_READ: Final = 1_000
"""Children that are read of another server's answer."""

Said = Mapping[str, Any]
"""A room's summary, as JSON."""


# -- one level, between servers --


def answer(
    room: RoomSummary,
    children_state: Sequence[Child],
    children: Sequence[RoomSummary],
    inaccessible: Sequence[str],
) -> dict[str, Any]:
    """What a server is told. `inaccessible` are rooms that it has no "viable way to peek/join"."""
    told: list[Said] = []
    size = 0
    for child in children:
        size += len(orjson.dumps(child.said))
        if size > MOST_BYTES:
            break
        told.append(child.said)
    return {
        "room": {**room.said, "children_state": children_state},
        "children": told,
        "inaccessible_children": list(inaccessible),
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """A room at which the walk has looked. `heard` and `inaccessible` are what another server says of its
    children besides."""

    said: Said = field(repr=False)
    children_state: Sequence[Child] = field(default=(), repr=False)
    heard: Mapping[str, Said] = field(default_factory=dict, repr=False)
    inaccessible: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, Any]:
        return {**self.said, "children_state": list(self.children_state)}


def read_answer(content: Mapping[str, Any], room_id: str, *, suggested_only: bool) -> Seen | None:
    """Another server's answer; None if it is not about the room."""
    room = content.get("room")
    said = read_summary(room)
    if said is None or not isinstance(room, dict) or said["room_id"] != room_id:
        return None
    children, inaccessible = content.get("children"), content.get("inaccessible_children")
    heard = [
        child
        for entry in (children[:MOST_READ] if isinstance(children, list) else ())
        if (child := read_summary(entry)) is not None
    ]
    return Seen(
        said,
        read_children(room.get("children_state"), suggested_only=suggested_only),
        {child["room_id"]: child for child in heard},
        frozenset(
            one
            for one in (inaccessible[:MOST_READ] if isinstance(inaccessible, list) else ())
            if isinstance(one, str) and is_room_id(one)
        ),
    )


# -- the walk --


@dataclass(frozen=True, slots=True)
class Look:
    """The walk asks what is to be said of this room. `heard` is what the server of its parent has said."""

    room_id: str
    via: tuple[str, ...]
    depth: int = 0
    heard: Said | None = field(default=None, repr=False)
    is_last: bool = False
    """Its children will not be looked at."""

    @property
    def hearsay_is_enough(self) -> bool:
        """Whether nothing is missing in what was heard: of a space its children are."""
        return self.heard is not None and (self.is_last or self.heard.get("room_type") != SPACE)


Walk = Generator[Look, Seen | None, None]


def walk(room_id: str, via: Sequence[str], max_depth: int) -> Walk:
    """Depth first, each room once. It is sent None for a room that is not shown, and passes it by."""
    waiting = [Look(room_id, tuple(via), is_last=max_depth == 0)]
    looked_at: set[str] = set()
    while waiting and len(looked_at) < MOST_ROOMS:
        look = waiting.pop()
        if look.room_id in looked_at:
            continue
        looked_at.add(look.room_id)
        seen = yield look
        if seen is None or look.is_last:
            continue
        depth = look.depth + 1
        waiting += [
            Look(
                child["state_key"],
                servers_of(child),
                depth,
                seen.heard.get(child["state_key"]),
                is_last=depth >= max_depth,
            )
            for child in reversed(seen.children_state)
            if child["state_key"] not in seen.inaccessible
        ]
        # What lies further down would never be reached.
        del waiting[:-MOST_ROOMS]


# -- its pages --

_START: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,2})\.([01])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Route:
    """A walk and where its page begins: after that many rooms that were looked at."""

    max_depth: int
    suggested_only: bool
    limit: int
    after: int = 0

    def token(self, looked_at: int) -> str:
        """Says where the next page begins. The walk is walked again up to there: so no process has to
        remember it, and nothing in a token can lead astray."""
        return f"{looked_at}.{self.max_depth}.{int(self.suggested_only)}"


def route(*, limit: int | None, max_depth: int | None, suggested_only: bool, start: str | None) -> Route:
    """What was asked for, as far as it is given."""
    if limit is not None and limit <= 0:
        raise MatrixError("M_INVALID_PARAM", "limit is not greater than zero.")
    if max_depth is not None and max_depth < 0:
        raise MatrixError("M_INVALID_PARAM", "max_depth is negative.")
    chosen = Route(
        MOST_DEPTH if max_depth is None else min(max_depth, MOST_DEPTH),
        suggested_only,
        MOST_ON_PAGE if limit is None else min(limit, MOST_ON_PAGE),
    )
    if start is None:
        return chosen
    match = _START.fullmatch(start)
    # "If specified, `max_depth` and `suggested_only` cannot be changed from the first request."
    if match is None or start != chosen.token(int(match[1])):
        raise MatrixError("M_INVALID_PARAM", "from is not what this server has given out for this walk.")
    return Route(chosen.max_depth, chosen.suggested_only, chosen.limit, int(match[1]))
