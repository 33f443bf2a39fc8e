"""States with ids, and their stored form."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from federation.state_resolution.state_groups import (
    MAX_DISTANCE,
    StateGroup,
    StoredState,
    choose_storage,
    rebuild_state,
    state_changes,
)

STATES = st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), st.sampled_from("123"))


@dataclass(frozen=True)
class Row:
    types: list[str]
    state_keys: list[str]
    event_ids: list[str | None]


def row(kept: StoredState) -> Row:
    return Row([key[0] for key in kept.entries], [key[1] for key in kept.entries], list(kept.entries.values()))


@given(st.lists(STATES, min_size=1, max_size=8))
def test_every_state_of_a_chain_is_rebuilt(states: list[dict[tuple[str, str], str]]) -> None:
    """After any additions, replacements and removals."""
    parent = None
    chain: list[Row] = []
    for number, state in enumerate(states):
        kept = choose_storage(parent, state)
        chain = [row(kept)] if kept.parent is None else [*chain, row(kept)]
        assert rebuild_state(chain) == state
        parent = StateGroup(number, state, kept.distance)


def test_a_chain_is_bounded() -> None:
    """After `MAX_DISTANCE` deltas comes a snapshot."""
    state = {("t", str(number)): "$e" for number in range(10)}
    changed = {**state, ("t", "0"): "$f"}
    assert choose_storage(StateGroup(1, state, MAX_DISTANCE - 1), changed) == StoredState(
        1, MAX_DISTANCE, {("t", "0"): "$f"}
    )
    assert choose_storage(StateGroup(1, state, MAX_DISTANCE), changed) == StoredState(None, 0, changed)


def test_a_mostly_new_state_is_stored_completely() -> None:
    """A delta would not be smaller."""
    assert choose_storage(StateGroup(1, {("t", ""): "$a"}), {("t", ""): "$b"}).parent is None
    assert choose_storage(None, {}) == StoredState(None, 0, {})


def test_removed_keys_have_none_as_event() -> None:
    assert state_changes({("t", "a"): "$a", ("t", "b"): "$b"}, {("t", "b"): "$c"}) == {
        ("t", "a"): None,
        ("t", "b"): "$c",
    }
