"""Which user may send an agent's events."""

import pytest

from bridge.connectors.cis.examination import (
    NOT_THE_AGENT,
    AgentSender,
    LostAgentNotice,
    Sender,
    ValidEvent,
    check_user,
)
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.rooms import FederationRoom
from tests.bridge.connectors.cis.event_builders import COORDINATOR, WORKER, message, registered, request, unregistered

ROOM = FederationRoom("default", "kitchen.local")


def valid(event: AnyEvent, sender: Sender) -> ValidEvent:
    return ValidEvent(event, sender, ROOM)


@pytest.mark.parametrize("user", ["@worker-1:kitchen.local", "@palaver:kitchen.local"])
def test_the_agents_user_and_the_nodes_user(user: str) -> None:
    """For every type of event."""
    assert check_user(valid(registered(), AgentSender(WORKER)), user) is None
    assert check_user(valid(message(), AgentSender(WORKER)), user) is None


def test_another_user_of_the_server_is_refused() -> None:
    """The homeserver's signature proves the user, but not that the user is the agent."""
    for event in (registered(), message()):
        wrong = check_user(valid(event, AgentSender(WORKER)), "@mallory:kitchen.local")
        assert wrong is NOT_THE_AGENT
    asked = valid(request(), AgentSender(COORDINATOR))
    assert check_user(asked, "@coordinator:living.local") is None
    assert check_user(asked, "@worker-1:living.local") is NOT_THE_AGENT


def test_any_user_may_report_a_lost_local_agent() -> None:
    """The report changes nothing."""
    valid_event = valid(unregistered(), LostAgentNotice(WORKER))
    assert check_user(valid_event, "@anybody:living.local") is None


def test_an_agent_without_a_valid_user_id_sends_through_its_node() -> None:
    """Its id is too long once it is escaped."""
    event = registered().model_copy(update={"agent_id": "ä" * 60})
    said = valid(event, AgentSender(event.agent))
    assert check_user(said, "@palaver:kitchen.local") is None
    assert check_user(said, "@a:kitchen.local") is NOT_THE_AGENT
