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
class Entry:
    depth: int
    prev_events: Sequence[str] = ()


# a ← b ← c ← e, and a ← d ← e
DIAMOND = {"a": Entry(1), "b": Entry(2, ["a"]), "c": Entry(3, ["b"]), "d": Entry(2, ["a"]), "e": Entry(4, ["c", "d"])}


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_every_event_comes_after_its_prev_events(chance: random.Random, size: int) -> None:
    """In whatever order they were sent."""
    edges = {n: chance.sample(range(n), min(n, chance.randint(0, 3))) for n in range(size)}
    shuffled = chance.sample(list(edges), size)
    ordered = topological_order({f"${n}": [f"${prev}" for prev in edges[n]] for n in shuffled})
    assert sorted(ordered) == sorted(f"${n}" for n in edges)
    position = {event_id: index for index, event_id in enumerate(ordered)}
    assert all(position[f"${prev}"] < position[f"${n}"] for n, prevs in edges.items() for prev in prevs)


def test_the_order_is_stable() -> None:
    """References to other events do not matter; events in a cycle are left out."""
    assert topological_order({"c": ["x"], "a": [], "b": ["x", "x"]}) == ["c", "a", "b"]
    assert topological_order({"a": ["b"], "b": ["a"], "c": []}) == ["c"]


def test_missing_references() -> None:
    """Each once."""
    assert missing_references([["a", "b"], ["b", "c"], []], {"a"}) == {"b", "c"}


def test_an_accepted_event_replaces_its_prev_events() -> None:
    """A chain has one forward extremity, a fork two, and a merge one again."""
    assert forward_extremities(["a"], [("b", ["a"]), ("c", ["b"])], {}) == ("c",)
    assert forward_extremities(["a"], [("b", ["x"])], {}) == ("a", "b")
    assert forward_extremities(["a", "b"], [("c", ["b", "a"])], {}) == ("c",)
    assert forward_extremities(["a"], [], {}) == ("a",)


def test_hidden_events_are_skipped() -> None:
    """An accepted event that follows a hidden one also replaces the extremities before it."""
    hidden = {"refused": ["refused too"], "refused too": ["a"]}
    assert forward_extremities(["a", "z"], [("b", ["refused"])], hidden) == ("z", "b")


def test_a_walk_between_latest_and_earliest() -> None:
    """Breadth-first from the latest events, which are excluded, to the earliest; oldest first."""
    assert walk_missing_events(["e"], ["a"], DIAMOND, limit=10).found == ("b", "d", "c")
    assert walk_missing_events(["e"], [], DIAMOND, limit=10).found == ("a", "b", "d", "c")
    assert walk_missing_events(["e"], [], DIAMOND, limit=2).found == ("d", "c")
    assert walk_missing_events(["e"], ["b", "d"], DIAMOND, limit=10).found == ("c",)
    assert walk_missing_events(["e", "c"], [], DIAMOND, limit=10, min_depth=2).found == ("b", "d")
    assert walk_missing_events(["e"], ["e"], DIAMOND, limit=10).found == ()


def test_a_walk_reports_unknown_events() -> None:
    """So that they can be loaded."""
    places = {name: at for name, at in DIAMOND.items() if name != "c"}
    walk = walk_missing_events(["e", "x"], [], places, limit=10)
    assert walk.found == ("a", "d")
    assert walk.unknown == {"c", "x"}
    assert walk_backwards(["e"], places, 10).unknown == {"c"}


def test_a_backwards_walk_includes_the_events_themselves() -> None:
    """Newest first, each once, at most `limit`."""
    assert walk_backwards(["e"], DIAMOND, 10).found == ("e", "c", "b", "d", "a")
    assert walk_backwards(["c", "d"], DIAMOND, 2).found == ("c", "b")
