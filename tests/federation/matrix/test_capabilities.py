"""What only some Matrix sides can do."""

from federation.matrix.capabilities import BackendCapability


def test_a_capability_is_its_name() -> None:
    """So that it can be shown and configured as text."""
    assert BackendCapability("edus") is BackendCapability.EDUS
    assert f"{BackendCapability.TO_DEVICE}" == "to_device"
