"""What waits to be sent."""

from federation.queue_depth import Waiting


def test_figures_of_one_server_are_one_value() -> None:
    """Two looks at a queue that has not changed say the same."""
    assert Waiting("a.example", 1, 2, 3) == Waiting("a.example", pdus=1, edus=2, lag_ms=3)
