"""The graph of events and their `prev_events`: topological order, missing references, forward extremities,
walks.

`depth` is used only for the order of a result, because senders can choose it freely.
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
    """The events found, in order, and those that must be loaded to continue."""

    found: tuple[EventId, ...]
    unknown: frozenset[EventId]


def topological_order(edges: Mapping[EventId, Collection[EventId]]) -> list[EventId]:
    """The events, each after those to which its edges lead; otherwise the order is kept.

    Events in a cycle, which hashes make impossible unless an event id is forged, are left out.
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
    for event_id in ready:  # the list grows during the loop
        ordered.append(event_id)
        for follower in followers.get(event_id, ()):
            waiting_for[follower] -= 1
            if not waiting_for[follower]:
                ready.append(follower)
    return ordered


def missing_references(events: Iterable[Collection[EventId]], known: Container[EventId]) -> set[EventId]:
    """The references to unknown events."""
    return {event_id for references in events for event_id in references if event_id not in known}


def forward_extremities(
    before: Iterable[EventId],
    accepted: Sequence[tuple[EventId, Collection[EventId]]],
    hidden: Mapping[EventId, Collection[EventId]],
) -> tuple[EventId, ...]:
    """The forward extremities after these accepted events, each with its `prev_events`.

    `hidden`: rejected and soft-failed events with their `prev_events`. They are never forward extremities,
    and an accepted event that follows one also replaces the extremities before it.
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
    graph: Mapping[EventId, "GraphEntry"],
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
            entry = graph.get(event_id)
            if entry is None:
                unknown.add(event_id)
                continue
            for prev_event in entry.prev_events:
                before = graph.get(prev_event)
                if prev_event in seen:
                    continue
                seen.add(prev_event)
                if before is None:
                    unknown.add(prev_event)
                elif before.depth >= min_depth:
                    found.append(prev_event)
                    below.append(prev_event)
        level = below
    # Events found later are older, also where depths are equal: the stable sort keeps that order.
    found_last_first = list(reversed(found[:limit]))
    oldest_first = sorted(found_last_first, key=lambda event_id: graph[event_id].depth)
    return WalkResult(tuple(oldest_first), frozenset(unknown))


def walk_backwards(start: Iterable[EventId], graph: Mapping[EventId, "GraphEntry"], limit: int) -> WalkResult:
    """`backfill`: the events themselves and the events before them, newest first."""
    seen = set()
    unknown = set()
    heap: list[tuple[int, EventId]] = []

    def visit(event_id: EventId) -> None:
        if event_id in seen:
            return
        seen.add(event_id)
        entry = graph.get(event_id)
        if entry is None:
            unknown.add(event_id)
        else:
            heapq.heappush(heap, (-entry.depth, event_id))

    for event_id in start:
        visit(event_id)
    found: list[EventId] = []
    while heap and len(found) < limit:
        _, event_id = heapq.heappop(heap)
        found.append(event_id)
        for prev_event in graph[event_id].prev_events:
            visit(prev_event)
    return WalkResult(tuple(found), frozenset(unknown))
