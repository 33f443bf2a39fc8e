"""Rooms within spaces."""

import pytest

from federation.events.spaces import child_content, is_child, parent_content, via_of
from federation.matrix.errors import MatrixError


def test_a_child_says_how_it_is_reached_and_where_it_stands() -> None:
    """By a few servers, each once, and none that could not be one."""
    servers = ["a.example", "a.example", "no server", "b.example", "c.example", "d.example"]
    assert via_of(servers) == ["a.example", "b.example", "c.example"]
    assert child_content(servers, order="01", suggested=True) == {
        "via": ["a.example", "b.example", "c.example"],
        "order": "01",
        "suggested": True,
    }
    assert child_content(["a.example"]) == {"via": ["a.example"]}
    assert parent_content(["a.example"], canonical=True) == {"via": ["a.example"], "canonical": True}


@pytest.mark.parametrize("order", ["x" * 51, "ä", "\n"])
def test_an_order_that_clients_would_ignore_is_refused(order: str) -> None:
    """Up to 50 characters of ASCII."""
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        child_content(["a.example"], order=order)


def test_a_room_without_via_was_taken_out() -> None:
    """Whatever stands there."""
    assert is_child({"via": ["a.example"]})
    assert not any(map(is_child, ({}, {"via": []}, {"via": "a.example"})))
