"""State resolution, version 2 (room versions 3 to 11) and 2.1 (room version 12), as the steps of the
specification.

What servers disagree on when they follow the text in different ways, they resolve differently, and the room
falls apart. Where Synapse and a literal reading part, this follows Synapse; each place says so.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field

from federation.auth_rules import Refused, state_needed
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.pdu import EventId, Pdu, StateKey
from federation.room_version import RoomVersion
from federation.state_resolution.auth_chains import auth_difference, conflicted_state_subgraph
from federation.state_resolution.conflicts import StateSet, split
from federation.state_resolution.events import Events
from federation.state_resolution.iterative_auth_checks import Replay, replay
from federation.state_resolution.mainline import mainline_ordering
from federation.state_resolution.power_ordering import (
    is_power_event,
    reverse_topological_power_ordering,
    with_auth_chains,
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolved state."""

    state: Mapping[StateKey, EventId]
    refused: Mapping[EventId, Refused] = field(default_factory=dict)
    """Events that were in the running and that the rules kept out, and why."""


@dataclass(frozen=True, slots=True)
class NeedEvents:
    """Events that must be loaded before the state can be resolved: load them, each with its auth chain, and
    call again. What cannot be had is then named as `absent`."""

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
    """The state that results when branches with these states meet.

    `events` are those that have been loaded. `auth_edges` may tell the ids of the auth events of those that
    have not: the chains behind state on which all agree are long, and only their ids matter. `rejected` are
    the events that were rejected when they came; `absent` those of which it is known that nobody has them:
    they are left out.
    """
    first, *others = state_sets
    if all(state_set == first for state_set in others):
        return Resolution(first)
    unconflicted, conflicted = split(state_sets)
    source = Events(events, auth_edges, absent, version)

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
    #    power event    *P*, enlarge *X* by adding the events in the auth chain of *P* which also belong to
    #    the full conflicted set.    Sort *X* into a list using the *reverse topological power ordering*.
    power_events = [event_id for event_id, pdu in members.items() if is_power_event(pdu)]
    graph = with_auth_chains(power_events, members, source)
    sorted_power_events = reverse_topological_power_ordering(graph, source)

    # 2. Apply the *iterative auth checks algorithm*, starting from the *unconflicted state map* (v2.1: from
    #    an *empty*    state map), to the list of events from the previous step to get a partially resolved
    #    state.
    replayed = Replay(dict(start))
    replay(sorted_power_events, replayed, rejected, source)

    # 3. Take all remaining events that weren't picked in step 1 and order them by the mainline ordering
    #    based on the    power level in the partially resolved state obtained in step 2.
    remaining = [event_id for event_id in members if event_id not in graph]
    ordered = mainline_ordering(remaining, replayed.state.get(POWER_LEVELS), source) if remaining else []
    if source.missing:
        return NeedEvents(frozenset(source.missing))

    # 4. Apply the *iterative auth checks algorithm* on the partial resolved state and the list of events
    #    from the    previous step.
    replay(ordered, replayed, rejected, source)
    if source.missing:
        return NeedEvents(frozenset(source.missing))

    # 5. Update the result by replacing any event with the event with the same key from the *unconflicted
    #    state map*,    if such an event exists, to get the final resolved state.
    return Resolution({**replayed.state, **unconflicted}, replayed.refused)


def _full_conflicted_set(
    state_sets: Sequence[StateSet], conflicted: set[EventId], source: Events
) -> set[EventId]:
    """The specification: "The *full conflicted set* is the union of the conflicted state set, the
    conflicted state subgraph, and the auth difference"; in v2 without the subgraph."""
    edges = source.auth_events_of
    full = conflicted | auth_difference([set(state_set.values()) for state_set in state_sets], edges)
    if source.version.state_resolution_starts_empty:
        full |= conflicted_state_subgraph(conflicted, edges)
    return full


def _load(
    full_conflicted_set: set[EventId], start: Mapping[StateKey, EventId], source: Events
) -> dict[EventId, Pdu]:
    """The events of the full conflicted set, but for absent ones. Whatever they will be checked against is
    looked up as well, so that all that is missing is asked for at once."""
    members = {pdu.event_id: pdu for pdu in map(source.get, full_conflicted_set) if pdu is not None}
    for pdu in members.values():
        for auth_event in pdu.auth_events:
            source.get(auth_event)
        source.create_of(pdu)
        for key in state_needed(pdu, source.version):
            if key in start:
                source.get(start[key])
    if POWER_LEVELS in start:
        source.get(start[POWER_LEVELS])
    return members
