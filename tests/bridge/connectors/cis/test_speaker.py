"""Who may speak for an agent."""

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
from tests.bridge.connectors.cis.made import COORDINATOR, WORKER, message, registered, request, unregistered

ROOM = FederationRoom("default", "kitchen.local")


def taken(event: AnyEvent, sender: Sender) -> ValidEvent:
    return ValidEvent(event, sender, ROOM)


@pytest.mark.parametrize("user", ["@worker-1:kitchen.local", "@palaver:kitchen.local"])
def test_an_agent_speaks_for_itself_and_its_node_for_it(user: str) -> None:
    """Whatever it is that they say."""
    assert check_user(taken(registered(), AgentSender(WORKER)), user) is None
    assert check_user(taken(message(), AgentSender(WORKER)), user) is None


def test_a_person_of_the_same_server_does_not() -> None:
    """A homeserver vouches for what its people say, and not for that they are agents."""
    for event in (registered(), message()):
        wrong = check_user(taken(event, AgentSender(WORKER)), "@mallory:kitchen.local")
        assert wrong is NOT_THE_AGENT
    asked = taken(request(), AgentSender(COORDINATOR))
    assert check_user(asked, "@coordinator:living.local") is None
    assert check_user(asked, "@worker-1:living.local") is NOT_THE_AGENT


def test_that_an_agent_of_ours_is_missed_may_anybody_say() -> None:
    """It changes nothing."""
    told = taken(unregistered(), LostAgentNotice(WORKER))
    assert check_user(told, "@anybody:living.local") is None


def test_an_agent_that_no_user_can_be_is_spoken_for_by_its_node() -> None:
    """Its id is too long once it is escaped."""
    event = registered().model_copy(update={"agent_id": "ä" * 60})
    said = taken(event, AgentSender(event.agent))
    assert check_user(said, "@palaver:kitchen.local") is None
    assert check_user(said, "@a:kitchen.local") is NOT_THE_AGENT
