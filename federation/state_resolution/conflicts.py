"""The conflicted and unconflicted state, the auth difference and the conflicted state subgraph.

The walks along `auth_events` do not recurse, and do not use `depth`, which senders can choose freely.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

from federation.events import EventId, StateKey

StateSet = Mapping[StateKey, EventId]


def split_conflicts(state_sets: Sequence[StateSet]) -> tuple[dict[StateKey, EventId], set[EventId]]:
    """The unconflicted state map and the conflicted state set.

    "If a given key *K* is present in every *Si* with the same value *V* in each state map, then the pair
    (*K*, *V*) belongs to the *unconflicted state map*. Otherwise, *V* belongs to the *conflicted state
    set*."
    """
    first, *others = state_sets
    # Set operations on dictionary views are faster than a loop over the keys.
    common = first.items()
    unconflicted = set(common).intersection(*(state_set.items() for state_set in others))
    everything = set(chain.from_iterable(state_set.items() for state_set in state_sets))
    return dict(unconflicted), {event_id for _, event_id in everything - unconflicted}


Edges = Callable[[EventId], Collection[EventId]]


def reachable(start: Iterable[EventId], edges: Edges, known: Collection[EventId] = ()) -> set[EventId]:
    """The events and their auth chains, without the `known` events and the events reachable only through
    them.

    "The *auth chain* of an event *E* is the set containing all of *E*'s auth events, all of *their* auth
    events, and so on recursively, stretching back to the start of the room."
    """
    found = {event_id for event_id in start if event_id not in known}
    to_visit = list(found)
    while to_visit:
        for auth_event in edges(to_visit.pop()):
            if auth_event not in found and auth_event not in known:
                found.add(auth_event)
                to_visit.append(auth_event)
    return found


def auth_difference(state_sets: Sequence[Collection[EventId]], edges: Edges) -> set[EventId]:
    """The specification: "If *Ci* is the full auth chain of *Si*, then the auth difference is ∪ *Ci* − ∩
    *Ci*."

    The chain of a state set is "the union of the auth chains for each event in *Si*"; Synapse includes the
    events of the set themselves, and a room has one state only if all servers do the same.
    """
    # The chains of the events that all sets have in common are part of every chain. Only the rest needs to be
    # compared.
    common = set(state_sets[0]).intersection(*state_sets[1:])
    in_every_chain = reachable(common, edges)
    chains = [reachable(state_set, edges, in_every_chain) for state_set in state_sets]
    return set().union(*chains) - chains[0].intersection(*chains[1:])


def conflicted_state_subgraph(conflicted: Collection[EventId], edges: Edges) -> set[EventId]:
    """The specification: "Starting from an event in the *conflicted state set* and following `auth_events`
    edges may lead to another event in the conflicted state set. The union of all such paths between any
    pair of events in the conflicted state set (including endpoints) forms […] the *conflicted state
    subgraph*."
    """
    # An event is on such a path if it is reachable from a conflicted event and a conflicted event is
    # reachable from it.
    behind = reachable(conflicted, edges)
    backwards: dict[EventId, list[EventId]] = {}
    for event_id in behind:
        for auth_event in edges(event_id):
            backwards.setdefault(auth_event, []).append(event_id)
    return reachable(conflicted, lambda event_id: backwards.get(event_id, ()))
