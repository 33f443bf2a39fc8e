"""The types under which listeners receive EDUs."""

import pytest

from federation.transactions.edu_dispatcher import EduUpdate, ReceivedCustomEdu, TypingUsers, edu_type
from federation.transactions.edus import CustomEdu, DeviceListUpdate, Receipt, SigningKeyUpdate, ToDevice, UserPresence


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        (TypingUsers("!r", ()), "m.typing"),
        (Receipt("!r", "@a:b", "$1", 1), "m.receipt"),
        (UserPresence("@a:b", "online"), "m.presence"),
        (DeviceListUpdate("@a:b", "D", 1, (), False, None, None), "m.device_list_update"),
        (SigningKeyUpdate("@a:b", None, None), "m.signing_key_update"),
        (ToDevice("@a:b", "m.x", "1", {}), "m.direct_to_device"),
        (ReceivedCustomEdu("b", CustomEdu("io.cis.agent.heartbeat", {})), "io.cis.agent.heartbeat"),
    ],
)
def test_updates_have_the_type_of_their_edu(said: EduUpdate, type_: str) -> None:
    """Listeners register for the type that the specification, or a custom protocol, defines."""
    assert edu_type(said) == type_
