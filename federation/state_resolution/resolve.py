"""State resolution, version 2 (room versions 3 to 11) and 2.1 (room version 12), as the steps of the
specification.

Servers that implement the text differently compute different states, and the room diverges. Where Synapse
deviates from a literal reading, this follows Synapse; a comment says so at each place.

`resolve` has the five steps of the algorithm. Below it stand the three algorithms that the steps use: the
reverse topological power ordering, the mainline ordering, and the iterative auth checks.
"""

import heapq
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from federation.auth_rules import Refused, check, required_state
from federation.auth_rules.auth_event_selection import JOIN_RULES, POWER_LEVELS
from federation.auth_rules.levels import Level, PowerLevels
from federation.events import CREATE, EventId, Pdu, StateKey
from federation.matrix.room_version import RoomVersion
from federation.state_resolution.conflicts import StateSet, auth_difference, conflicted_state_subgraph, split_conflicts
from federation.state_resolution.events import EventSource


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolved state."""

    state: Mapping[StateKey, EventId]
    refused: Mapping[EventId, Refused] = field(default_factory=dict)
    """Events of the full conflicted set that the authorisation rules refused, and why."""


@dataclass(frozen=True, slots=True)
class NeedEvents:
    """Events that must be loaded before the state can be resolved. Load them, each with its auth chain, and
    call `resolve` again, with unavailable events in `absent`."""

    event_ids: frozenset[EventId]


def resolve(
    version: RoomVersion,
    state_sets: Sequence[StateSet],
    events: Mapping[EventId, Pdu],
    *,
    auth_edges: Mapping[EventId, Collection[EventId]] | None = None,
    rejected: Container[EventId] = (),
    absent: Container[EventId] = (),
) -> Resolution | NeedEvents:
    """Resolve the states of merging branches.

    `events` are the loaded events. `auth_edges` may have the ids of the auth events of events that are not
    loaded: the auth chains of unconflicted state are long, and only their ids are needed. `rejected` are
    events that were rejected on receipt; `absent` are events that are not available: they are left out.
    """
    first, *others = state_sets
    if all(state_set == first for state_set in others):
        return Resolution(first)
    unconflicted, conflicted = split_conflicts(state_sets)
    source = EventSource(events, auth_edges, absent, version)

    full_conflicted_set = _full_conflicted_set(state_sets, conflicted, source)
    if source.missing:
        return NeedEvents(frozenset(source.missing))
    # v2.1: "The *iterative auth checks algorithm* […] now starts with an *empty* state map instead of the
    # unconflicted state map."
    start = {} if version.state_resolution_starts_empty else unconflicted
    members = _load(full_conflicted_set, start, source)
    if source.missing:
        return NeedEvents(frozenset(source.missing))

    # 1. Select the set *X* of all *power events* that appear in the *full conflicted set*. For each such
    #    power event *P*, enlarge *X* by adding the events in the auth chain of *P* which also belong to
    #    the full conflicted set. Sort *X* into a list using the *reverse topological power ordering*.
    power_events = [event_id for event_id, pdu in members.items() if is_power_event(pdu)]
    graph = with_auth_chains(power_events, members, source)
    sorted_power_events = reverse_topological_power_ordering(graph, source)

    # 2. Apply the *iterative auth checks algorithm*, starting from the *unconflicted state map* (v2.1: from
    #    an *empty* state map), to the list of events from the previous step to get a partially resolved
    #    state.
    partial = AuthCheckResult(dict(start))
    iterative_auth_checks(sorted_power_events, partial, rejected, source)

    # 3. Take all remaining events that weren't picked in step 1 and order them by the mainline ordering
    #    based on the power level in the partially resolved state obtained in step 2.
    remaining = [event_id for event_id in members if event_id not in graph]
    ordered = mainline_ordering(remaining, partial.state.get(POWER_LEVELS), source) if remaining else []
    if source.missing:
        return NeedEvents(frozenset(source.missing))

    # 4. Apply the *iterative auth checks algorithm* on the partial resolved state and the list of events
    #    from the previous step.
    iterative_auth_checks(ordered, partial, rejected, source)
    if source.missing:
        return NeedEvents(frozenset(source.missing))

    # 5. Update the result by replacing any event with the event with the same key from the *unconflicted
    #    state map*, if such an event exists, to get the final resolved state.
    return Resolution({**partial.state, **unconflicted}, partial.refused)


def _full_conflicted_set(state_sets: Sequence[StateSet], conflicted: set[EventId], source: EventSource) -> set[EventId]:
    """The specification: "The *full conflicted set* is the union of the conflicted state set, the
    conflicted state subgraph, and the auth difference"; in v2 without the subgraph."""
    edges = source.auth_events_of
    full = conflicted | auth_difference([set(state_set.values()) for state_set in state_sets], edges)
    if source.version.state_resolution_starts_empty:
        full |= conflicted_state_subgraph(conflicted, edges)
    return full


def _load(
    full_conflicted_set: set[EventId], start: Mapping[StateKey, EventId], source: EventSource
) -> dict[EventId, Pdu]:
    """The available events of the full conflicted set. The events against which they will be checked are
    looked up as well, so that all missing events are reported at once."""
    members = {pdu.event_id: pdu for pdu in map(source.get, full_conflicted_set) if pdu is not None}
    for pdu in members.values():
        for auth_event in pdu.auth_events:
            source.get(auth_event)
        source.create_of(pdu)
        for key in required_state(pdu, source.version):
            if key in start:
                source.get(start[key])
    if POWER_LEVELS in start:
        source.get(start[POWER_LEVELS])
    return members


def is_power_event(pdu: Pdu) -> bool:
    """The specification: "A *power event* is a state event with type `m.room.power_levels` or
    `m.room.join_rules`, or a state event with type `m.room.member` where the `membership` is `leave` or
    `ban` and the `sender` does not match the `state_key`."

    In Synapse the first two must have an empty state key, and the create event is a power event as well. The
    order of the other events depends on it.
    """
    if pdu.key in (POWER_LEVELS, JOIN_RULES, CREATE):
        return True
    return pdu.type == "m.room.member" and pdu.membership in ("leave", "ban") and pdu.sender != pdu.state_key


def with_auth_chains(
    power_events: Iterable[EventId], full_conflicted_set: Container[EventId], events: EventSource
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


def reverse_topological_power_ordering(graph: dict[EventId, set[EventId]], events: EventSource) -> list[EventId]:
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


def _comparison(graph: Iterable[EventId], events: EventSource) -> dict[EventId, tuple[Level, int, EventId]]:
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


def mainline_ordering(event_ids: Iterable[EventId], power_levels: EventId | None, events: EventSource) -> list[EventId]:
    """The mainline ordering based on these power levels: for events *x* and *y*, *x* < *y* if

    1. the mainline position of *x* is **greater** than the mainline position of *y* (i.e. the auth chain of
       *x* is based on an earlier event in the mainline than *y*); or
    2. the mainline positions are the same, but *x*'s `origin_server_ts` is *less* than *y*'s; or
    3. the events have the same `origin_server_ts` as well, but *x*'s `event_id` is *less* than *y*'s.
    """
    # Counted from the oldest event, so that greater positions come first in ascending order. The position ∞,
    # which comes before all others, is 0.
    mainline = _mainline(power_levels, events)
    age = {event_id: index for index, event_id in enumerate(reversed(mainline), start=1)}
    pdus = [pdu for pdu in map(events.get, event_ids) if pdu is not None]
    pdus.sort(key=lambda pdu: (_mainline_position(pdu, age, events), pdu.origin_server_ts, pdu.event_id))
    return [pdu.event_id for pdu in pdus]


def _mainline(power_levels: EventId | None, events: EventSource) -> list[EventId]:
    """The specification: "Let *P* = *P0* be an `m.room.power_levels` event. Starting with *i* = 0,
    repeatedly fetch *Pi+1*, the `m.room.power_levels` event in the `auth_events` of *Pi*." """
    mainline = []
    current = None if power_levels is None else events.get(power_levels)
    while current is not None:
        mainline.append(current.event_id)
        current = events.power_levels_of(current)
    return mainline


def _mainline_position(pdu: Pdu, age: dict[EventId, int], events: EventSource) -> int:
    """The specification: "Find the smallest index *j* ≥ 1 for which *ej* belongs to the mainline of *P*. If
    such a *j* exists, then *ej* = *Pi* for some unique index *i* ≥ 0. Otherwise set *i* = ∞"."""
    visited = []
    current = events.power_levels_of(pdu)
    while current is not None and current.event_id not in age:
        visited.append(current.event_id)
        current = events.power_levels_of(current)
    position = 0 if current is None else age[current.event_id]
    # Events based on the power levels visited on the way have the same position; cached for the next call.
    for event_id in visited:
        age[event_id] = position
    return position


@dataclass(slots=True)
class AuthCheckResult:
    """The state built by the iterative auth checks, and the events that the rules refused."""

    state: dict[StateKey, EventId]
    refused: dict[EventId, Refused] = field(default_factory=dict)


def iterative_auth_checks(
    event_ids: Iterable[EventId], into: AuthCheckResult, rejected: Container[EventId], events: EventSource
) -> None:
    """The specification: "The *iterative auth checks algorithm* takes as input an initial room state and a
    sorted list of state events, and constructs a new room state by iterating through the event list and
    applying the state event to the room state if the state event is allowed by the authorization rules. If
    the state event is not allowed by the authorization rules, then the event is ignored."""
    for event_id in event_ids:
        pdu = events.get(event_id)
        # An event that was rejected on receipt stays rejected, as in Synapse.
        if pdu is None or pdu.key is None or event_id in rejected:
            continue
        verdict = check(pdu, _auth_state(pdu, into.state, rejected, events), events.version)
        if isinstance(verdict, Refused):
            into.refused[event_id] = verdict
        else:
            into.state[pdu.key] = event_id


def _auth_state(
    pdu: Pdu, state: Mapping[StateKey, EventId], rejected: Container[EventId], events: EventSource
) -> dict[StateKey, Pdu]:
    """The specification: "If a `(event_type, state_key)` key that is required for checking the
    authorization rules is not present in the state, then the appropriate state event from the event's
    `auth_events` is used if the auth event is not rejected."
    """
    auth_state: dict[StateKey, Pdu] = {}
    for auth_event in pdu.auth_events:
        entry = events.get(auth_event)
        if entry is not None and entry.key is not None and auth_event not in rejected:
            auth_state[entry.key] = entry
    if events.version.create_event_is_room_id:
        # Version 12: no event names the create event; its room id does.
        create = events.create_of(pdu)
        if create is not None and create.event_id not in rejected:
            auth_state[CREATE] = create
    for key in required_state(pdu, events.version):
        resolved = state.get(key)
        if resolved is not None and resolved not in rejected:
            entry = events.get(resolved)
            if entry is not None:
                auth_state[key] = entry
    return auth_state
