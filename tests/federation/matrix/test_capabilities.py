"""Capabilities of Matrix backends."""

from federation.matrix.capabilities import BackendCapability


def test_a_capability_is_a_string() -> None:
    """So that it can be shown as text."""
    assert BackendCapability("edus") is BackendCapability.EDUS
    assert f"{BackendCapability.TO_DEVICE}" == "to_device"
