"""What the task service needs of connectors."""

from typing import get_args

from bridge.tasks.ports import Delivered, DeliveryOutcome, NotInThisProcess, Rejected, RetryLater


def test_a_delivery_has_four_outcomes() -> None:
    """`TaskEffects` matches on them, so a fifth one must be handled there."""
    assert set(get_args(DeliveryOutcome)) == {Delivered, Rejected, RetryLater, NotInThisProcess}
