"""The graph that events form by `prev_events`: in which order to take them, what is missing, where it ends.

Nothing here looks at `depth` for more than the order of an answer: senders are free to make it up.
"""

import heapq
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from federation.events import EventId

if TYPE_CHECKING:
    from storage.rooms.events import GraphEntry

Edges = Callable[[EventId], Collection[EventId]]


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The events that were found, in their order, and those that would have to be loaded to go on."""

    found: tuple[EventId, ...]
    unknown: frozenset[EventId]


def topological_order(edges: Mapping[EventId, Collection[EventId]]) -> list[EventId]:
    """The events, each after those of them that its edges lead to; otherwise in the order they are given in.

    What stands in a circle, which no honest hash can make, is left out.
    """
    waiting_for = {}
    followers: dict[EventId, list[EventId]] = {}
    ready = []
    for event_id, leads_to in edges.items():
        within = {other for other in leads_to if other in edges}
        if within:
            waiting_for[event_id] = len(within)
            for other in within:
                followers.setdefault(other, []).append(event_id)
        else:
            ready.append(event_id)
    ordered = []
    for event_id in ready:  # grows while it is walked
        ordered.append(event_id)
        for follower in followers.get(event_id, ()):
            waiting_for[follower] -= 1
            if not waiting_for[follower]:
                ready.append(follower)
    return ordered


def missing_references(events: Iterable[Collection[EventId]], known: Container[EventId]) -> set[EventId]:
    """Those of the references that lead to nothing known."""
    return {event_id for references in events for event_id in references if event_id not in known}


def forward_extremities(
    before: Iterable[EventId],
    accepted: Sequence[tuple[EventId, Collection[EventId]]],
    hidden: Mapping[EventId, Collection[EventId]],
) -> tuple[EventId, ...]:
    """The ends of the graph after these events, each with its `prev_events`.

    `hidden` are events that were refused, with their `prev_events`: nothing of ours follows them, and an
    accepted event that follows one has everything before it behind itself as well.
    """
    followed: set[EventId] = set()
    to_visit = [event_id for _, prev_events in accepted for event_id in prev_events]
    while to_visit:
        event_id = to_visit.pop()
        if event_id not in followed:
            followed.add(event_id)
            to_visit.extend(hidden.get(event_id, ()))
    ends = dict.fromkeys(event_id for event_id in before if event_id not in followed)
    ends |= dict.fromkeys(event_id for event_id, _ in accepted if event_id not in followed)
    return tuple(ends)


def walk_missing_events(
    latest: Iterable[EventId],
    earliest: Collection[EventId],
    places: Mapping[EventId, "GraphEntry"],
    *,
    limit: int,
    min_depth: int = 0,
) -> WalkResult:
    """`get_missing_events`: "retrieves previous events that the sender is missing. This is done by doing a
    breadth-first walk of the `prev_events` for the `latest_events`, ignoring any events in `earliest_events`
    and stopping at the `limit`." Oldest first."""
    seen = set(earliest) | set(latest)
    level = [event_id for event_id in dict.fromkeys(latest) if event_id not in earliest]
    found: list[EventId] = []
    unknown = set()
    while level and len(found) < limit:
        below = []
        for event_id in level:
            place = places.get(event_id)
            if place is None:
                unknown.add(event_id)
                continue
            for prev_event in place.prev_events:
                before = places.get(prev_event)
                if prev_event in seen:
                    continue
                seen.add(prev_event)
                if before is None:
                    unknown.add(prev_event)
                elif before.depth >= min_depth:
                    found.append(prev_event)
                    below.append(prev_event)
        level = below
    # What was found later lies further back, wherever depths are equal: sorting keeps that order.
    found_last_first = list(reversed(found[:limit]))
    oldest_first = sorted(found_last_first, key=lambda event_id: places[event_id].depth)
    return WalkResult(tuple(oldest_first), frozenset(unknown))


def walk_backwards(
    start: Iterable[EventId], places: Mapping[EventId, "GraphEntry"], limit: int
) -> WalkResult:
    """`backfill`: the events themselves and what lies before them, newest first."""
    seen = set()
    unknown = set()
    heap: list[tuple[int, EventId]] = []

    def meet(event_id: EventId) -> None:
        if event_id in seen:
            return
        seen.add(event_id)
        place = places.get(event_id)
        if place is None:
            unknown.add(event_id)
        else:
            heapq.heappush(heap, (-place.depth, event_id))

    for event_id in start:
        meet(event_id)
    found: list[EventId] = []
    while heap and len(found) < limit:
        _, event_id = heapq.heappop(heap)
        found.append(event_id)
        for prev_event in places[event_id].prev_events:
            meet(prev_event)
    return WalkResult(tuple(found), frozenset(unknown))
