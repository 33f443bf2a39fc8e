"""What only some Matrix sides can do."""

from federation.matrix.capabilities import SideCapability


def test_a_capability_is_its_name() -> None:
    """So that it can be shown and configured as text."""
    assert SideCapability("edus") is SideCapability.EDUS
    assert f"{SideCapability.TO_DEVICE}" == "to_device"
