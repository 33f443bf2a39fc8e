"""The hierarchy of a space: the response for one level, which servers exchange, and the walk through all
levels.

Client-server API and server-server API, "Spaces".
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from federation.directory.room_summary import SPACE, RoomSummary, parse_summary
from federation.directory.spaces import Child, parse_children, via_of
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_room_id

MAX_ON_PAGE: Final = 50
"""The most rooms on a page of a walk, and the most children in a response to a server. As in Synapse."""
MAX_BYTES: Final = 512 * 1024
"""The limit for the children in a response to a server. It requests others by their ids."""
MAX_ROOMS: Final = 1_000
"""The most rooms that a walk visits, on all pages together."""
MAX_DEPTH: Final = 10
"""How deep a walk goes into a space. "Servers should apply a default value, and impose a maximum value to
avoid resource exhaustion."
"""
MAX_PARSED: Final = 1_000
"""The most children that are read from another server's response."""

SummaryFields = Mapping[str, Any]
"""The fields of a room summary, as JSON."""


# -- one level, between servers --


def encode_response(
    room: RoomSummary, children_state: Sequence[Child], children: Sequence[RoomSummary], inaccessible: Sequence[str]
) -> dict[str, Any]:
    """Return the response to a server. `inaccessible` are rooms that it has no "viable way to peek/join"."""
    listed: list[SummaryFields] = []
    size = 0
    for child in children:
        size += len(orjson.dumps(child.fields))
        if size > MAX_BYTES:
            break
        listed.append(child.fields)
    return {
        "room": {**room.fields, "children_state": children_state},
        "children": listed,
        "inaccessible_children": list(inaccessible),
    }


@dataclass(frozen=True, slots=True)
class VisitedRoom:
    """A visited room. `reported` and `inaccessible` are what another server reported about its children."""

    fields: SummaryFields = field(repr=False)
    children_state: Sequence[Child] = field(default=(), repr=False)
    reported: Mapping[str, SummaryFields] = field(default_factory=dict, repr=False)
    inaccessible: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, Any]:
        return {**self.fields, "children_state": list(self.children_state)}


def parse_response(content: Mapping[str, Any], room_id: str, *, suggested_only: bool) -> VisitedRoom | None:
    """Parse another server's response; None if it is not about the room."""
    room = content.get("room")
    fields = parse_summary(room)
    if fields is None or not isinstance(room, dict) or fields["room_id"] != room_id:
        return None
    children, inaccessible = content.get("children"), content.get("inaccessible_children")
    reported = [
        child
        for entry in (children[:MAX_PARSED] if isinstance(children, list) else ())
        if (child := parse_summary(entry)) is not None
    ]
    return VisitedRoom(
        fields,
        parse_children(room.get("children_state"), suggested_only=suggested_only),
        {child["room_id"]: child for child in reported},
        frozenset(
            one
            for one in (inaccessible[:MAX_PARSED] if isinstance(inaccessible, list) else ())
            if isinstance(one, str) and is_room_id(one)
        ),
    )


# -- the walk --


@dataclass(frozen=True, slots=True)
class Visit:
    """The walk requests a visit of this room. `reported` is the summary from the server of its parent."""

    room_id: str
    via: tuple[str, ...]
    depth: int = 0
    reported: SummaryFields | None = field(default=None, repr=False)
    is_last: bool = False
    """Its children will not be visited."""

    @property
    def is_report_sufficient(self) -> bool:
        """Whether the reported summary suffices. For a space it lacks the children."""
        return self.reported is not None and (self.is_last or self.reported.get("room_type") != SPACE)


Walk = Generator[Visit, VisitedRoom | None, None]


def walk(room_id: str, via: Sequence[str], max_depth: int) -> Walk:
    """Walk depth first, visiting each room once. The caller sends None for a room that is skipped."""
    pending = [Visit(room_id, tuple(via), is_last=max_depth == 0)]
    visited_ids: set[str] = set()
    while pending and len(visited_ids) < MAX_ROOMS:
        visit = pending.pop()
        if visit.room_id in visited_ids:
            continue
        visited_ids.add(visit.room_id)
        room = yield visit
        if room is None or visit.is_last:
            continue
        depth = visit.depth + 1
        pending += [
            Visit(
                child["state_key"],
                via_of(child),
                depth,
                room.reported.get(child["state_key"]),
                is_last=depth >= max_depth,
            )
            for child in reversed(room.children_state)
            if child["state_key"] not in room.inaccessible
        ]
        # Rooms beyond the limit would never be visited.
        del pending[:-MAX_ROOMS]


# -- pages --

_START: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,2})\.([01])", re.ASCII)


@dataclass(frozen=True, slots=True)
class HierarchyQuery:
    """A walk and the start of a page: after how many visited rooms it begins."""

    max_depth: int
    suggested_only: bool
    limit: int
    after: int = 0

    def token(self, visited_count: int) -> str:
        """Return the token of the next page. The walk is repeated up to there, so that no process has to
        keep its state, and a forged token is harmless."""
        return f"{visited_count}.{self.max_depth}.{int(self.suggested_only)}"


def parse_query(*, limit: int | None, max_depth: int | None, suggested_only: bool, start: str | None) -> HierarchyQuery:
    """Parse the parameters of a request and apply the limits."""
    if limit is not None and limit <= 0:
        raise MatrixError("M_INVALID_PARAM", "limit must be greater than zero.")
    if max_depth is not None and max_depth < 0:
        raise MatrixError("M_INVALID_PARAM", "max_depth must not be negative.")
    query = HierarchyQuery(
        MAX_DEPTH if max_depth is None else min(max_depth, MAX_DEPTH),
        suggested_only,
        MAX_ON_PAGE if limit is None else min(limit, MAX_ON_PAGE),
    )
    if start is None:
        return query
    match = _START.fullmatch(start)
    # "If specified, `max_depth` and `suggested_only` cannot be changed from the first request."
    if match is None or start != query.token(int(match[1])):
        raise MatrixError(
            "M_INVALID_PARAM",
            "from is not a pagination token of this walk, or max_depth or suggested_only has changed.",
        )
    return HierarchyQuery(query.max_depth, query.suggested_only, query.limit, int(match[1]))
