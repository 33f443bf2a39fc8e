"""Size limits of EDUs."""

from federation.events.format import MAX_PDU_BYTES
from federation.transactions import edus as limits


def test_the_limit_of_to_device_messages_is_that_of_events() -> None:
    """The specification gives to-device messages no other limit than the size of events."""
    assert limits.MAX_TO_DEVICE_BYTES == MAX_PDU_BYTES
