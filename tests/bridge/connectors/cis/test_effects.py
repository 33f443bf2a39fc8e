"""What follows from events of peers."""

from typing import Any

import pytest

from bridge.agents import updates as agent_updates
from bridge.connectors.cis.effects import (
    CancelTask,
    DeliverMessage,
    Effect,
    FinishTask,
    ReannounceAgent,
    RejectTask,
    ReportProgress,
    SubmitTask,
    UpdateAgent,
    effect_of,
)
from bridge.connectors.cis.examination import AgentSender, LostAgentNotice, ValidEvent
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.rooms import AgentRoom, BroadcastRoom, FederationRoom
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerProfile
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.request import TaskKey
from tests.bridge.connectors.cis.made import (
    COORDINATOR,
    WORKER,
    heartbeat,
    message,
    registered,
    request,
    response,
    unregistered,
)

KITCHEN = CisSettings("kitchen.local", namespaces=("main", "alpha"))
LIVING = CisSettings("living.local")
PEER_LIVING = Peer("living.local")
PEER_KITCHEN = Peer("kitchen.local")
ALPHA = FederationRoom("alpha", "kitchen.local")


def effect(
    event: AnyEvent, peer: Peer = PEER_KITCHEN, settings: CisSettings = LIVING, room: AgentRoom = ALPHA
) -> Effect:
    sender = AgentSender(WORKER if peer is PEER_KITCHEN else COORDINATOR)
    return effect_of(ValidEvent(event, sender, room), peer, settings)


def typed(message_type: str, payload: Any) -> AnyEvent:
    return message(payload).model_copy(update={"message_type": message_type})


def test_a_request_for_an_agent_of_ours_becomes_a_task() -> None:
    """In the namespace of the room in which it was said, or in the main one."""
    asked = effect(request(), PEER_LIVING, KITCHEN)
    assert isinstance(asked, SubmitTask)
    assert asked.request.key == TaskKey("living.local", "req-1")
    assert (asked.request.from_address, asked.request.to_address) == (COORDINATOR, WORKER)
    assert asked.namespace == "alpha"
    broadcast = effect(request(), PEER_LIVING, KITCHEN, BroadcastRoom("living.local"))
    assert isinstance(broadcast, SubmitTask)
    assert broadcast.namespace == "main"


def test_nothing_is_passed_on_to_a_third_node() -> None:
    """Whom that one trusts is its own affair."""
    refused = effect(request(), PEER_LIVING, CisSettings("third.local"))
    assert isinstance(refused, RejectTask)
    assert refused.error.code is ErrorCode.AGENT_NOT_FOUND
    assert refused.node_id == "living.local"


def test_an_answer_is_for_a_task_of_ours() -> None:
    """Sent by the agent that had it."""
    answered = effect(response())
    assert answered == FinishTask(TaskKey("living.local", "req-1"), Answer(True, "done", 0), WORKER)


def test_progress_and_cancellation_are_messages() -> None:
    """Of types of their own; of what task they are progress may leave open, a cancellation may not."""
    assert effect(typed("progress", {"request_id": "r", "n": 1})) == ReportProgress(
        "r", {"n": 1}, WORKER, COORDINATOR
    )
    assert effect(typed("progress", {"n": 1})) == ReportProgress(None, {"n": 1}, WORKER, COORDINATOR)
    assert effect(typed("cancel", {"request_id": "r", "reason": "x"})) == CancelTask(
        TaskKey("kitchen.local", "r"), str(WORKER), "x"
    )
    for other in (typed("cancel", {"reason": "x"}), typed("announcement", "hello")):
        assert effect(other) == DeliverMessage(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("event", [registered(), unregistered(), heartbeat()])
def test_what_is_said_of_agents_is_for_the_routing_table(event: AnyEvent) -> None:
    """Agents of published nodes live by heartbeats of their own, others with their node."""
    for profile in PeerProfile:
        news = effect_of(
            ValidEvent(event, AgentSender(WORKER), ALPHA), Peer("kitchen.local", profile), LIVING
        )
        assert isinstance(news, UpdateAgent)
        if isinstance(news.update, agent_updates.Registration):
            assert news.update.sends_heartbeats is (profile is PeerProfile.CIS_1_1)


def test_that_an_agent_of_ours_is_missed() -> None:
    """It says nothing of the agent."""
    told = ValidEvent(unregistered(), LostAgentNotice(WORKER), ALPHA)
    assert effect_of(told, PEER_LIVING, KITCHEN) == ReannounceAgent(WORKER)
