"""The conflicted and unconflicted state."""

from federation.events import StateKey
from federation.state_resolution.conflicts import split_conflicts

NAME: StateKey = ("m.room.name", "")
TOPIC: StateKey = ("m.room.topic", "")


def test_unconflicted_entries_are_equal_in_all_sets() -> None:
    """ "Otherwise, *V* belongs to the *conflicted state set*": also when only some sets have the key."""
    same = {NAME: "$n", TOPIC: "$t"}
    assert split_conflicts([same, same]) == (same, set())
    assert split_conflicts([same]) == (same, set())
    assert split_conflicts([same, {NAME: "$n", TOPIC: "$other"}]) == ({NAME: "$n"}, {"$t", "$other"})
    assert split_conflicts([same, {NAME: "$n"}]) == ({NAME: "$n"}, {"$t"})
    assert split_conflicts([same, {}]) == ({}, {"$n", "$t"})
    assert split_conflicts([{NAME: "$1"}, {NAME: "$2"}, {NAME: "$3"}]) == ({}, {"$1", "$2", "$3"})
    assert split_conflicts([same, same, {NAME: "$n", TOPIC: "$other"}]) == ({NAME: "$n"}, {"$t", "$other"})
