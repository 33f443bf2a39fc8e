"""The configuration of federation."""

from bridge.config.federation import Federation


def test_closed_by_default() -> None:
    """Opening is something that a person does."""
    assert Federation().mode == "closed"
