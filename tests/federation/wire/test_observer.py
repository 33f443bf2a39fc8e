import pytest

from federation.wire.observer import METHODS, OTHER_METHOD, method_label


@pytest.mark.parametrize("method", sorted(METHODS))
def test_known_methods_are_labels(method: str) -> None:
    """A few that everybody uses."""
    assert method_label(method) == method


@pytest.mark.parametrize("method", ["BREW", "PROPFIND", "get", ""])
def test_a_peer_cannot_invent_labels(method: str) -> None:
    """Every label takes memory for ever, so their number is fixed."""
    assert method_label(method) == OTHER_METHOD
