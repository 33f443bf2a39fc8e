"""Agents and nodes."""

from bridge.agents.address import AgentAddress
from bridge.agents.agent import TIMEOUT, UNTRUSTED, Agent, AgentNode, AgentStatus

WORKER = Agent("worker-1", "kitchen.local", "cis", "claude", ("coding",), AgentStatus.IDLE, None, 1, 2, None)


def test_the_address_has_both_ids() -> None:
    """The agent's and the node's."""
    assert WORKER.address == AgentAddress("worker-1", "kitchen.local")


def test_online_lost_and_unregistered() -> None:
    """An agent that timed out is lost; one that unregistered is not."""
    lost = WORKER._replace(gone_at=5, gone_reason=TIMEOUT)
    gone = WORKER._replace(gone_at=5, gone_reason="shutdown")
    assert [(one.is_online, one.is_lost) for one in (WORKER, lost, gone)] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert WORKER._replace(gone_at=5, gone_reason=UNTRUSTED).is_lost


def test_a_blocked_node() -> None:
    """Not one that is silent itself, or that was never heard from."""
    node = AgentNode("kitchen.local", None, trusted=False, first_seen_at=1)
    assert not node.is_blocked
    assert node._replace(silent_since=5).is_blocked
    assert not node._replace(silent_since=5, trusted=True).is_blocked
