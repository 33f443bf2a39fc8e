"""What listeners are told of."""

import pytest

from federation.transactions.edu_values import (
    DeviceListUpdate,
    Other,
    PresenceOfUser,
    Receipt,
    SigningKeyUpdate,
    ToDevice,
)
from federation.transactions.ephemeral import Ephemeral, OtherFrom, TypingNow, edu_type


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        (TypingNow("!r", ()), "m.typing"),
        (Receipt("!r", "@a:b", "$1", 1), "m.receipt"),
        (PresenceOfUser("@a:b", "online"), "m.presence"),
        (DeviceListUpdate("@a:b", "D", 1, (), False, None, None), "m.device_list_update"),
        (SigningKeyUpdate("@a:b", None, None), "m.signing_key_update"),
        (ToDevice("@a:b", "m.x", "1", {}), "m.direct_to_device"),
        (OtherFrom("b", Other("io.cis.agent.heartbeat", {})), "io.cis.agent.heartbeat"),
    ],
)
def test_each_is_heard_under_the_type_that_it_has_on_the_wire(said: Ephemeral, type_: str) -> None:
    """Who listens names what the specification, or a protocol of its own, calls it."""
    assert edu_type(said) == type_
