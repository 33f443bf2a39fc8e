"""The section [federation]."""

from bridge.config.federation import Federation


def test_federation_is_closed_by_default() -> None:
    """An operator has to open it explicitly."""
    assert Federation().mode == "closed"
