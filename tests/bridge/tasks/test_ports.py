"""What the desk needs of connectors."""

from typing import get_args

from bridge.tasks.ports import Delivered, DeliveryOutcome, NotInThisProcess, Rejected, RetryLater


def test_the_desk_knows_four_outcomes_of_a_delivery() -> None:
    """It matches on them, so that a fifth would have to be worked on there."""
    assert set(get_args(DeliveryOutcome)) == {Delivered, Rejected, RetryLater, NotInThisProcess}
