"""The hierarchy of a space: the response for one level, which servers exchange, and the walk through all
levels.

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
"""The most rooms on a page of a walk, and the most children in a response to a server. As in Synapse."""
MOST_BYTES: Final = 512 * 1024
"""The limit for the children in a response to a server. It requests others by their ids."""
MOST_ROOMS: Final = 1_000
"""The most rooms that a walk visits, on all pages together."""
MOST_DEPTH: Final = 10
"""How deep a walk goes into a space. "Servers should apply a default value, and impose a maximum value to
avoid resource exhaustion."
"""
MOST_READ: Final = 1_000
"""The most children that are read from another server's response."""

Said = Mapping[str, Any]
"""The fields of a room summary, as JSON."""


# -- one level, between servers --


def answer(
    room: RoomSummary,
    children_state: Sequence[Child],
    children: Sequence[RoomSummary],
    inaccessible: Sequence[str],
) -> dict[str, Any]:
    """Return the response to a server. `inaccessible` are rooms that it has no "viable way to peek/join"."""
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
    """A visited room. `children` and `inaccessible` are what another server reported about its children."""

    said: Said = field(repr=False)
    children_state: Sequence[Child] = field(default=(), repr=False)
    heard: Mapping[str, Said] = field(default_factory=dict, repr=False)
    inaccessible: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, Any]:
        return {**self.said, "children_state": list(self.children_state)}


def read_answer(content: Mapping[str, Any], room_id: str, *, suggested_only: bool) -> Seen | None:
    """Parse another server's response; None if it is not about the room."""
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
    """The walk requests a visit of this room. `reported` is the summary from the server of its parent."""

    room_id: str
    via: tuple[str, ...]
    depth: int = 0
    heard: Said | None = field(default=None, repr=False)
    is_last: bool = False
    """Its children will not be visited."""

    @property
    def hearsay_is_enough(self) -> bool:
        """Whether the reported summary suffices. For a space it lacks the children."""
        return self.heard is not None and (self.is_last or self.heard.get("room_type") != SPACE)


Walk = Generator[Look, Seen | None, None]


def walk(room_id: str, via: Sequence[str], max_depth: int) -> Walk:
    """Walk depth first, visiting each room once. The caller sends None for a room that is skipped."""
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
        # Rooms beyond the limit would never be visited.
        del waiting[:-MOST_ROOMS]


# -- pages --

_START: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,2})\.([01])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Route:
    """A walk and the start of a page: after how many visited rooms it begins."""

    max_depth: int
    suggested_only: bool
    limit: int
    after: int = 0

    def token(self, looked_at: int) -> str:
        """Return the token of the next page. The walk is repeated up to there, so that no process has to
        keep its state, and a forged token is harmless."""
        return f"{looked_at}.{self.max_depth}.{int(self.suggested_only)}"


def route(*, limit: int | None, max_depth: int | None, suggested_only: bool, start: str | None) -> Route:
    """Parse the parameters of a request and apply the limits."""
    if limit is not None and limit <= 0:
        raise MatrixError("M_INVALID_PARAM", "limit must be greater than zero.")
    if max_depth is not None and max_depth < 0:
        raise MatrixError("M_INVALID_PARAM", "max_depth must not be negative.")
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
        raise MatrixError(
            "M_INVALID_PARAM",
            "from is not a pagination token of this walk, or max_depth or suggested_only has changed.",
        )
    return Route(chosen.max_depth, chosen.suggested_only, chosen.limit, int(match[1]))
