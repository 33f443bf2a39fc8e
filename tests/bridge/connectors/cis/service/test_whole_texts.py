"""The delivery that fetches whole texts is tested beside what fetches them: `test_long_texts`."""

from bridge.connectors.cis.service.long_texts import TextRestoringDelivery
from bridge.tasks.ports import Delivery
from tests.bridge.connectors.cis.service.test_long_texts import Hands


def test_it_stands_in_front_of_a_delivery() -> None:
    """And is one."""
    delivery: Delivery = TextRestoringDelivery(None, Hands())  # type: ignore[arg-type]
    assert callable(delivery.deliver)
