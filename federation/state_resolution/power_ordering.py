"""Reverse topological power ordering: events by which somebody may lose power, in the order to replay them
in."""

import heapq
from collections.abc import Container, Iterable

from federation.auth_rules import CREATE
from federation.auth_rules.auth_event_selection import JOIN_RULES, POWER_LEVELS
from federation.auth_rules.levels import Level, PowerLevels
from federation.pdu import EventId, Pdu
from federation.state_resolution.events import Events


def is_power_event(pdu: Pdu) -> bool:
    """The specification: "A *power event* is a state event with type `m.room.power_levels` or
    `m.room.join_rules`, or a state event with type `m.room.member` where the `membership` is `leave` or
    `ban` and the `sender` does not match the `state_key`."

    For Synapse the first two have an empty state key, and the create event is one as well. The order of the
    others depends on it.
    """
    if pdu.key in (POWER_LEVELS, JOIN_RULES, CREATE):
        return True
    return pdu.type == "m.room.member" and pdu.membership in ("leave", "ban") and pdu.sender != pdu.state_key


def with_auth_chains(
    power_events: Iterable[EventId], full_conflicted_set: Container[EventId], events: Events
) -> dict[EventId, set[EventId]]:
    """Step 1: "For each such power event *P*, enlarge *X* by adding the events in the auth chain of *P*
    which also belong to the full conflicted set." The result has each event's auth events in *X*.

    Edges are followed from member to member of the full conflicted set only, in every room version, as
    Synapse does: a chain that leaves the set and comes back is not followed across the gap.
    """
    graph: dict[EventId, set[EventId]] = {}
    to_visit = list(power_events)
    while to_visit:
        event_id = to_visit.pop()
        if event_id not in graph:
            pdu = events.get(event_id)
            auth_events = () if pdu is None else pdu.auth_events
            graph[event_id] = {auth_event for auth_event in auth_events if auth_event in full_conflicted_set}
            to_visit.extend(graph[event_id])
    return graph


def reverse_topological_power_ordering(graph: dict[EventId, set[EventId]], events: Events) -> list[EventId]:
    """The specification: "The reverse topological power ordering can be found by sorting the events using
    Kahn's algorithm for topological sorting, and at each step selecting, among all the candidate vertices,
    the smallest vertex using the above comparison relation."""
    order = _comparison(graph, events)
    waiting_for = {event_id: len(auth_events) for event_id, auth_events in graph.items()}
    followers: dict[EventId, list[EventId]] = {}
    for event_id, auth_events in graph.items():
        for auth_event in auth_events:
            followers.setdefault(auth_event, []).append(event_id)
    candidates = [order[event_id] for event_id, count in waiting_for.items() if count == 0]
    heapq.heapify(candidates)
    ordered = []
    while candidates:
        *_, event_id = heapq.heappop(candidates)
        ordered.append(event_id)
        for follower in followers.get(event_id, ()):
            waiting_for[follower] -= 1
            if waiting_for[follower] == 0:
                heapq.heappush(candidates, order[follower])
    return ordered


def _comparison(graph: Iterable[EventId], events: Events) -> dict[EventId, tuple[Level, int, EventId]]:
    """For events *x* and *y*, *x* < *y* if

    1. *x*'s sender has *greater* power level than *y*'s sender, when looking at their respective
       `auth_event`s; or
    2. the senders have the same power level, but *x*'s `origin_server_ts` is *less* than *y*'s; or
    3. the events have the same `origin_server_ts`, but *x*'s `event_id` is *less* than *y*'s.
    """
    levels: dict[tuple[Pdu | None, Pdu | None], PowerLevels] = {}
    order = {}
    for event_id in graph:
        pdu = events.get(event_id)
        if pdu is None:
            continue
        basis = events.create_of(pdu), events.power_levels_of(pdu)
        if basis not in levels:
            levels[basis] = PowerLevels(*basis, events.version)
        order[event_id] = (-levels[basis].of_user(pdu.sender), pdu.origin_server_ts, event_id)
    return order
