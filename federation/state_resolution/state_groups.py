"""States that have been given a number, so that two events can be seen to have the same one; and how a state
is kept: whole, or as what changed since another."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from federation.events import EventId, StateKey

if TYPE_CHECKING:
    from storage.rooms.rooms import StateGroupRow

MAX_DISTANCE: Final = 64
"""How many changes may have to be applied to a snapshot. More would make reading slow, fewer writing."""


@dataclass(frozen=True, slots=True, eq=False)
class StateGroup:
    """A state; nobody may change it."""

    id: int
    state: Mapping[StateKey, EventId] = field(repr=False)
    distance: int = 0
    """How far it is from the snapshot that it is kept by."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """How a state is kept: the changes since a parent, or, without one, all of it. None takes a key out."""

    parent: int | None
    distance: int
    entries: Mapping[StateKey, EventId | None]


def state_changes(
    before: Mapping[StateKey, EventId], after: Mapping[StateKey, EventId]
) -> dict[StateKey, EventId | None]:
    """What has to be done to one state to get the other."""
    changed: dict[StateKey, EventId | None] = dict.fromkeys(before.keys() - after.keys())
    changed.update(after.items() - before.items())
    return changed


def choose_storage(parent: StateGroup | None, state: Mapping[StateKey, EventId]) -> StoredState:
    """By its difference from the parent, unless that is far from its snapshot or differs in most."""
    if parent is not None and parent.distance < MAX_DISTANCE:
        difference = state_changes(parent.state, state)
        if 2 * len(difference) <= len(state):
            return StoredState(parent.id, parent.distance + 1, difference)
    return StoredState(None, 0, state)


def rebuild_state(chain: Iterable["StateGroupRow"]) -> dict[StateKey, EventId]:
    """The state that a snapshot and the changes after it lead to."""
    state: dict[StateKey, EventId] = {}
    for row in chain:
        for type_, state_key, event_id in zip(row.types, row.state_keys, row.event_ids, strict=True):
            if event_id is None:
                state.pop((type_, state_key), None)
            else:
                state[type_, state_key] = event_id
    return state
