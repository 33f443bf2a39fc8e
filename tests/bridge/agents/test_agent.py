"""What is known of an agent."""

from bridge.agents.address import AgentAddress
from bridge.agents.agent import TIMEOUT, UNTRUSTED, Agent, AgentNode, AgentStatus

WORKER = Agent("worker-1", "kitchen.local", "cis", "claude", ("coding",), AgentStatus.IDLE, None, 1, 2, None)


def test_its_address_is_made_of_its_two_names() -> None:
    """The one name by which any agent can be reached."""
    assert WORKER.address == AgentAddress("worker-1", "kitchen.local")


def test_it_is_here_lost_or_gone() -> None:
    """Whoever was not heard from is lost; whoever said goodbye is not."""
    lost = WORKER._replace(gone_at=5, gone_reason=TIMEOUT)
    gone = WORKER._replace(gone_at=5, gone_reason="shutdown")
    assert [(one.is_online, one.is_lost) for one in (WORKER, lost, gone)] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert WORKER._replace(gone_at=5, gone_reason=UNTRUSTED).is_lost


def test_a_node_is_cut_off_by_us_alone() -> None:
    """One that is silent by itself, or of which nothing was said yet, is not."""
    node = AgentNode("kitchen.local", None, trusted=False, first_seen_at=1)
    assert not node.is_blocked
    assert node._replace(silent_since=5).is_blocked
    assert not node._replace(silent_since=5, trusted=True).is_blocked
