"""Whether the node is ready."""

import pytest

from bridge.observability.health import HOMESERVER, NOT_YET, Health


def test_a_node_is_ready_when_every_part_has_said_so() -> None:
    """Until then each check says why not."""
    health = Health()
    assert set(health.readiness().checks) == {"database", "migrations", "listeners"}
    assert None not in health.readiness().checks.values()
    for check in ("database", "migrations", "listeners"):
        health.set(check, None)
    assert set(health.readiness().checks.values()) == {None}
    health.set("database", "It is gone.")
    assert health.get("database") == "It is gone."


def test_a_guest_is_ready_when_its_homeserver_is_there() -> None:
    """A node that is a homeserver itself has no such check."""
    health = Health()
    health.expect(HOMESERVER)
    assert health.get(HOMESERVER) == NOT_YET
    health.set(HOMESERVER, None)
    assert health.readiness().checks[HOMESERVER] is None


def test_an_unknown_check_is_a_bug() -> None:
    """A misspelt one would never be seen."""
    with pytest.raises(AssertionError):
        Health().set("databse", None)
