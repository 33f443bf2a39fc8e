"""The content of space events."""

import pytest

from federation.events.spaces import child_content, is_child, parent_content, via_of
from federation.matrix.errors import MatrixError


def test_the_content_of_a_child() -> None:
    """A few distinct valid servers, and the order."""
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
def test_an_invalid_order_is_refused(order: str) -> None:
    """At most 50 characters of ASCII."""
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        child_content(["a.example"], order=order)


def test_a_child_without_via_is_removed() -> None:
    """Whatever else its content has."""
    assert is_child({"via": ["a.example"]})
    assert not any(map(is_child, ({}, {"via": []}, {"via": "a.example"})))
