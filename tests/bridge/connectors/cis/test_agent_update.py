"""The conversion of agent events to updates of the routing table."""

from bridge.agents import updates as agent_updates
from bridge.agents.agent import AgentStatus
from bridge.connectors.cis.effects import agent_update
from bridge.connectors.cis.protocol.events import StatusUpdate
from tests.bridge.connectors.cis.event_builders import NOON, WORKER, heartbeat, registered, unregistered

AT = 1_770_552_000_000


def test_agent_events_become_updates() -> None:
    """With the event's timestamp."""
    status = StatusUpdate(
        agent_id="worker-1", node_id="kitchen.local", status=AgentStatus.BUSY, current_task="t", timestamp=NOON
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


def test_an_unregistration_without_a_reason() -> None:
    """ "reason" may be null."""
    gone = agent_update(unregistered(), sends_heartbeats=False)
    assert isinstance(gone, agent_updates.Unregistration)
    assert gone.reason == "unregistered"
