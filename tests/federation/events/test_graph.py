"""The graph of `prev_events`."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from federation.events.graph import (
    forward_extremities,
    missing_references,
    topological_order,
    walk_backwards,
    walk_missing_events,
)


@dataclass(frozen=True)
class At:
    depth: int
    prev_events: Sequence[str] = ()


# a ← b ← c ← e, and a ← d ← e
DIAMOND = {"a": At(1), "b": At(2, ["a"]), "c": At(3, ["b"]), "d": At(2, ["a"]), "e": At(4, ["c", "d"])}


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_every_event_comes_after_what_it_follows(chance: random.Random, size: int) -> None:
    """Whatever order they were sent in."""
    edges = {n: chance.sample(range(n), min(n, chance.randint(0, 3))) for n in range(size)}
    shuffled = chance.sample(list(edges), size)
    ordered = topological_order({f"${n}": [f"${prev}" for prev in edges[n]] for n in shuffled})
    assert sorted(ordered) == sorted(f"${n}" for n in edges)
    position = {event_id: index for index, event_id in enumerate(ordered)}
    assert all(position[f"${prev}"] < position[f"${n}"] for n, prevs in edges.items() for prev in prevs)


def test_order_is_kept_where_nothing_else_decides() -> None:
    """References to events outside are no hindrance; a circle is left out."""
    assert topological_order({"c": ["x"], "a": [], "b": ["x", "x"]}) == ["c", "a", "b"]
    assert topological_order({"a": ["b"], "b": ["a"], "c": []}) == ["c"]


def test_what_is_missing() -> None:
    """Each reference once."""
    assert missing_references([["a", "b"], ["b", "c"], []], {"a"}) == {"b", "c"}


def test_an_accepted_event_takes_the_place_of_what_it_follows() -> None:
    """A chain has one end, a fork two, and a merge one again."""
    assert forward_extremities(["a"], [("b", ["a"]), ("c", ["b"])], {}) == ("c",)
    assert forward_extremities(["a"], [("b", ["x"])], {}) == ("a", "b")
    assert forward_extremities(["a", "b"], [("c", ["b", "a"])], {}) == ("c",)
    assert forward_extremities(["a"], [], {}) == ("a",)


def test_what_was_refused_is_no_end_and_is_seen_through() -> None:
    """An accepted event that follows a refused one has what lies before that behind it."""
    hidden = {"refused": ["refused too"], "refused too": ["a"]}
    assert forward_extremities(["a", "z"], [("b", ["refused"])], hidden) == ("z", "b")


def test_missing_events_lie_between() -> None:
    """Breadth first from the latest, which are not among them, to the earliest; oldest first."""
    assert walk_missing_events(["e"], ["a"], DIAMOND, limit=10).found == ("b", "d", "c")
    assert walk_missing_events(["e"], [], DIAMOND, limit=10).found == ("a", "b", "d", "c")
    assert walk_missing_events(["e"], [], DIAMOND, limit=2).found == ("d", "c")
    assert walk_missing_events(["e"], ["b", "d"], DIAMOND, limit=10).found == ("c",)
    assert walk_missing_events(["e", "c"], [], DIAMOND, limit=10, min_depth=2).found == ("b", "d")
    assert walk_missing_events(["e"], ["e"], DIAMOND, limit=10).found == ()


def test_what_a_walk_cannot_pass_is_named() -> None:
    """So that it can be loaded."""
    places = {name: at for name, at in DIAMOND.items() if name != "c"}
    walk = walk_missing_events(["e", "x"], [], places, limit=10)
    assert walk.found == ("a", "d")
    assert walk.unknown == {"c", "x"}
    assert walk_backwards(["e"], places, 10).unknown == {"c"}


def test_backfill_goes_back_from_the_events_themselves() -> None:
    """Newest first, each once, as many as are wanted."""
    assert walk_backwards(["e"], DIAMOND, 10).found == ("e", "c", "b", "d", "a")
    assert walk_backwards(["c", "d"], DIAMOND, 2).found == ("c", "b")
