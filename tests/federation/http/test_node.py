"""Defaults of the node's data for endpoints."""

from federation.http.services import Node, Readiness
from federation.matrix.networks import LOOPBACK


def test_a_node_without_checks_is_ready() -> None:
    """No check has failed."""
    assert Readiness().checks == {}


def test_details_are_for_loopback_by_default() -> None:
    """The default rules allow loopback only."""
    assert Node(lambda: b"{}", Readiness, "1").rules.plain_networks == LOOPBACK
