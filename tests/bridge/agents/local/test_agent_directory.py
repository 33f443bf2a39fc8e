"""The default working directory of an agent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.local.command import directory_name


@pytest.mark.parametrize(
    ("agent_id", "name"),
    [
        ("worker-1", "worker-1"),
        ("My Worker", "My%20Worker"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        (".ssh", "%2Essh"),
        ("../../etc", "%2E%2E%2F%2E%2E%2Fetc"),
        ("a/b", "a%2Fb"),
        ("v1.2", "v1.2"),
    ],
)
def test_the_directory_is_below_its_parent(agent_id: str, name: str) -> None:
    """Agent ids may contain anything but an `@`."""
    assert directory_name(agent_id) == name


@given(st.text(min_size=1, max_size=255), st.text(min_size=1, max_size=255))
def test_each_agent_has_its_own_directory(one: str, other: str) -> None:
    """With a name that every file system accepts."""
    for agent_id in (one, other):
        name = directory_name(agent_id)
        assert "/" not in name
        assert not name.startswith(".")
        assert 0 < len(name.encode("ascii")) <= 140
    assert (directory_name(one) == directory_name(other)) == (one == other)


def test_long_ids_with_a_common_beginning_have_different_names() -> None:
    """By a hash of the whole id."""
    assert directory_name("x" * 200) != directory_name("x" * 201)
