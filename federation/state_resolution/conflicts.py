"""Which state the sets agree on, and which they do not."""

from collections.abc import Mapping, Sequence
from itertools import chain

from federation.pdu import EventId, StateKey

StateSet = Mapping[StateKey, EventId]


def split(state_sets: Sequence[StateSet]) -> tuple[dict[StateKey, EventId], set[EventId]]:
    """The unconflicted state map and the conflicted state set.

    "If a given key *K* is present in every *Si* with the same value *V* in each state map, then the pair
    (*K*, *V*) belongs to the *unconflicted state map*. Otherwise, *V* belongs to the *conflicted state
    set*."
    """
    first, *others = state_sets
    # The items that all sets have are found by the set operations of dictionary views, not key by key.
    common = first.items()
    unconflicted = set(common).intersection(*(state_set.items() for state_set in others))
    everything = set(chain.from_iterable(state_set.items() for state_set in state_sets))
    return dict(unconflicted), {event_id for _, event_id in everything - unconflicted}
