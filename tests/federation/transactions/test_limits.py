"""How much an EDU may hold."""

from federation.events.format import MAX_PDU_BYTES
from federation.transactions import edu_values as limits


def test_a_message_to_devices_is_as_large_as_an_event_may_be() -> None:
    """The specification gives to-device messages no other limit than the size of events."""
    assert limits.MAX_TO_DEVICE_BYTES == MAX_PDU_BYTES
