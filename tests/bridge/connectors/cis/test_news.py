"""What the routing table is told."""

from bridge.agents import updates as agent_updates
from bridge.agents.agent import AgentStatus
from bridge.connectors.cis.effects import agent_update
from bridge.connectors.cis.protocol.events import StatusUpdate
from tests.bridge.connectors.cis.made import NOON, WORKER, heartbeat, registered, unregistered

AT = 1_770_552_000_000


def test_what_is_said_of_agents() -> None:
    """With the time that the event bears."""
    status = StatusUpdate(
        agent_id="worker-1",
        node_id="kitchen.local",
        status=AgentStatus.BUSY,
        current_task="t",
        timestamp=NOON,
    )
    said = [
        agent_update(event, sends_heartbeats=True)
        for event in (registered("kimi", ("a",)), unregistered(reason="shutdown"), heartbeat(), status)
    ]
    assert said == [
        agent_updates.Registration(WORKER, "cis", "kimi", ("a",), AT, sends_heartbeats=True),
        agent_updates.Unregistration(WORKER, "shutdown", AT),
        agent_updates.AgentHeartbeat(WORKER, AgentStatus.IDLE, AT),
        agent_updates.StatusUpdate(WORKER, AgentStatus.BUSY, "t", AT),
    ]


def test_who_goes_without_a_reason_is_gone_all_the_same() -> None:
    """ "reason" may be null."""
    gone = agent_update(unregistered(), sends_heartbeats=False)
    assert isinstance(gone, agent_updates.Unregistration)
    assert gone.reason == "unregistered"
