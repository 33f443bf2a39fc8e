"""Health checks."""

import pytest

from bridge.observability.health import HOMESERVER, NOT_YET, Health


def test_ready_when_every_check_passes() -> None:
    """Until then each failing check has a reason."""
    health = Health()
    assert set(health.readiness().checks) == {"database", "migrations", "listeners"}
    assert None not in health.readiness().checks.values()
    for check in ("database", "migrations", "listeners"):
        health.set(check, None)
    assert set(health.readiness().checks.values()) == {None}
    health.set("database", "It is gone.")
    assert health.get("database") == "It is gone."


def test_attached_node_has_a_homeserver_check() -> None:
    """Other nodes do not."""
    health = Health()
    health.expect(HOMESERVER)
    assert health.get(HOMESERVER) == NOT_YET
    health.set(HOMESERVER, None)
    assert health.readiness().checks[HOMESERVER] is None


def test_unknown_check_raises() -> None:
    """A misspelt one would never be seen."""
    with pytest.raises(AssertionError):
        Health().set("databse", None)
