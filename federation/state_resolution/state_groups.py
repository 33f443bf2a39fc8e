"""State groups: states with an id, so that equal states can be recognised, and how they are stored:
completely, or as the changes since another group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from federation.events import EventId, StateKey

if TYPE_CHECKING:
    from storage.rooms.rooms import StateGroupRow

MAX_DISTANCE: Final = 64
"""Maximum number of deltas on a snapshot. More would make reading slow, fewer would make writing slow."""


@dataclass(frozen=True, slots=True, eq=False)
class StateGroup:
    """A state with its id. It must not be modified."""

    id: int
    state: Mapping[StateKey, EventId] = field(repr=False)
    distance: int = 0
    """The number of deltas between it and its snapshot."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The stored form of a state: the changes since its parent, or without parent the complete state. An
    event id of None removes the key."""

    parent: int | None
    distance: int
    entries: Mapping[StateKey, EventId | None]


def state_changes(
    before: Mapping[StateKey, EventId], after: Mapping[StateKey, EventId]
) -> dict[StateKey, EventId | None]:
    """The changes that lead from one state to the other."""
    changed: dict[StateKey, EventId | None] = dict.fromkeys(before.keys() - after.keys())
    changed.update(after.items() - before.items())
    return changed


def choose_storage(parent: StateGroup | None, state: Mapping[StateKey, EventId]) -> StoredState:
    """Store the difference from the parent, unless the parent is too far from its snapshot or most entries
    differ."""
    if parent is not None and parent.distance < MAX_DISTANCE:
        difference = state_changes(parent.state, state)
        if 2 * len(difference) <= len(state):
            return StoredState(parent.id, parent.distance + 1, difference)
    return StoredState(None, 0, state)


def rebuild_state(chain: Iterable["StateGroupRow"]) -> dict[StateKey, EventId]:
    """Apply the changes to the snapshot."""
    state: dict[StateKey, EventId] = {}
    for row in chain:
        for type_, state_key, event_id in zip(row.types, row.state_keys, row.event_ids, strict=True):
            if event_id is None:
                state.pop((type_, state_key), None)
            else:
                state[type_, state_key] = event_id
    return state
