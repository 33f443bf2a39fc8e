"""Which state the sets agree on, and which they do not."""

from federation.events import StateKey
from federation.state_resolution.conflicts import split

NAME: StateKey = ("m.room.name", "")
TOPIC: StateKey = ("m.room.topic", "")


def test_unconflicted_is_what_every_set_has_with_the_same_value() -> None:
    """ "Otherwise, *V* belongs to the *conflicted state set*": also when only some sets have the key."""
    same = {NAME: "$n", TOPIC: "$t"}
    assert split([same, same]) == (same, set())
    assert split([same]) == (same, set())
    assert split([same, {NAME: "$n", TOPIC: "$other"}]) == ({NAME: "$n"}, {"$t", "$other"})
    assert split([same, {NAME: "$n"}]) == ({NAME: "$n"}, {"$t"})
    assert split([same, {}]) == ({}, {"$n", "$t"})
    assert split([{NAME: "$1"}, {NAME: "$2"}, {NAME: "$3"}]) == ({}, {"$1", "$2", "$3"})
    assert split([same, same, {NAME: "$n", TOPIC: "$other"}]) == ({NAME: "$n"}, {"$t", "$other"})
