from federation.http.services import Node, Readiness
from federation.matrix.networks import LOOPBACK


def test_a_node_is_ready_when_nobody_checks() -> None:
    """No check has failed."""
    assert Readiness().checks == {}


def test_details_are_for_this_machine_unless_said_otherwise() -> None:
    """The default rules allow loopback alone."""
    assert Node(lambda: b"{}", Readiness, "1").rules.plain_networks == LOOPBACK
