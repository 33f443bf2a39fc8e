"""Walks along auth events. The graphs are written as `event: its auth events`."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.state_resolution.conflicts import auth_difference, conflicted_state_subgraph, reachable

Graph = dict[str, str]

LINE: Graph = {"a": "", "b": "a", "c": "b", "d": "c", "e": "d"}
#   a ← b ← c      a ← b ← d
FORK: Graph = {"a": "", "b": "a", "c": "b", "d": "b"}


def chain(graph: Graph, start: Collection[str]) -> set[str]:
    """The auth chain by a recursive textbook algorithm."""
    return set(start).union(*(chain(graph, graph[event]) for event in start))


def test_reachable() -> None:
    """The events and their auth chains, without the known events and their chains."""
    assert reachable("d", LINE.__getitem__) == set("abcd")
    assert reachable("d", LINE.__getitem__, known="b") == set("cd")
    assert reachable("d", LINE.__getitem__, known="d") == set()
    assert reachable("", LINE.__getitem__) == set()
    assert reachable("cd", FORK.__getitem__) == set("abcd")


def test_long_chains_do_not_recurse() -> None:
    """The chains of old rooms are longer than Python's recursion limit."""
    long = {number: [number - 1] if number else [] for number in range(50_000)}
    found = reachable(["49999"], lambda event: [str(entry) for entry in long[int(event)]])
    assert len(found) == 50_000


@pytest.mark.parametrize(
    ("state_sets", "difference"),
    [
        ([{"c"}, {"d"}], "cd"),
        ([{"c"}, {"b"}], "c"),
        ([{"c"}, {"c"}], ""),
        ([{"c", "d"}, {"c"}], "d"),
        ([{"c"}, {"d"}, {"b"}], "cd"),
        ([{"c"}, set()], "abc"),
        ([{"c"}], ""),
    ],
)
def test_auth_difference(state_sets: list[set[str]], difference: str) -> None:
    """∪ *Ci* − ∩ *Ci*."""
    assert auth_difference(state_sets, FORK.__getitem__) == set(difference)


def test_the_chain_of_a_state_set_contains_its_own_events() -> None:
    """As in Synapse. Both sets contain *b*, and *b* is in the chain of *c* of the first set: read literally,
    *b* would be in the difference, because no event of the second set leads to it."""
    assert auth_difference([{"c", "b"}, {"b"}], FORK.__getitem__) == {"c"}


graphs = st.integers(2, 8).flatmap(
    lambda size: st.tuples(
        *(st.sets(st.sampled_from("abcdefgh"[:number])) if number else st.just(set[str]()) for number in range(size))
    ).map(lambda edges: {"abcdefgh"[number]: "".join(sorted(behind)) for number, behind in enumerate(edges)})
)


@given(graphs, st.data())
def test_auth_difference_equals_the_formula(graph: Graph, data: st.DataObject) -> None:
    """However it is computed."""
    sets = data.draw(st.lists(st.sets(st.sampled_from(sorted(graph))), min_size=1, max_size=3))
    chains = [chain(graph, state_set) for state_set in sets]
    expected = {event for event in graph if any(event in c for c in chains) and not all(event in c for c in chains)}
    assert auth_difference(sets, graph.__getitem__) == expected


@pytest.mark.parametrize(
    ("graph", "conflicted", "subgraph"),
    [
        (LINE, "be", "bcde"),
        (LINE, "e", "e"),
        (LINE, "ab", "ab"),
        (FORK, "cd", "cd"),
        (FORK, "ad", "abd"),
        (LINE, "", ""),
    ],
)
def test_conflicted_state_subgraph(graph: Graph, conflicted: str, subgraph: str) -> None:
    """All events on the paths between two conflicted events, including the endpoints."""
    assert conflicted_state_subgraph(set(conflicted), graph.__getitem__) == set(subgraph)


@given(graphs, st.data())
def test_the_subgraph_by_definition(graph: Graph, data: st.DataObject) -> None:
    """The events reachable from a conflicted event, from which a conflicted event is reachable."""
    conflicted = data.draw(st.sets(st.sampled_from(sorted(graph))))
    expected = {event for event in chain(graph, conflicted) if not conflicted.isdisjoint(chain(graph, [event]))}
    assert conflicted_state_subgraph(conflicted, graph.__getitem__) == expected
