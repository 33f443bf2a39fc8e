"""The effects of valid events."""

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
from tests.bridge.connectors.cis.event_builders import (
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


def test_a_request_for_a_local_agent_becomes_a_task() -> None:
    """In the namespace of its room, or in the main one."""
    asked = effect(request(), PEER_LIVING, KITCHEN)
    assert isinstance(asked, SubmitTask)
    assert asked.request.key == TaskKey("living.local", "req-1")
    assert (asked.request.from_address, asked.request.to_address) == (COORDINATOR, WORKER)
    assert asked.namespace == "alpha"
    broadcast = effect(request(), PEER_LIVING, KITCHEN, BroadcastRoom("living.local"))
    assert isinstance(broadcast, SubmitTask)
    assert broadcast.namespace == "main"


def test_a_request_for_a_third_node_is_rejected() -> None:
    """Each node decides for itself which peers it trusts."""
    refused = effect(request(), PEER_LIVING, CisSettings("third.local"))
    assert isinstance(refused, RejectTask)
    assert refused.error.code is ErrorCode.AGENT_NOT_FOUND
    assert refused.node_id == "living.local"


def test_an_answer_finishes_a_task_of_this_node() -> None:
    """Its sender is the agent that has the task."""
    answered = effect(response())
    assert answered == FinishTask(TaskKey("living.local", "req-1"), Answer(True, "done", 0), WORKER)


def test_progress_and_cancellation_are_messages() -> None:
    """With their own message types. Progress may name no task; a cancellation must."""
    assert effect(typed("progress", {"request_id": "r", "n": 1})) == ReportProgress("r", {"n": 1}, WORKER, COORDINATOR)
    assert effect(typed("progress", {"n": 1})) == ReportProgress(None, {"n": 1}, WORKER, COORDINATOR)
    assert effect(typed("cancel", {"request_id": "r", "reason": "x"})) == CancelTask(
        TaskKey("kitchen.local", "r"), str(WORKER), "x"
    )
    for other in (typed("cancel", {"reason": "x"}), typed("announcement", "hello")):
        assert effect(other) == DeliverMessage(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("event", [registered(), unregistered(), heartbeat()])
def test_agent_events_update_the_routing_table(event: AnyEvent) -> None:
    """Agents of published nodes send their own heartbeats; others are covered by their node's."""
    for profile in PeerProfile:
        news = effect_of(ValidEvent(event, AgentSender(WORKER), ALPHA), Peer("kitchen.local", profile), LIVING)
        assert isinstance(news, UpdateAgent)
        if isinstance(news.update, agent_updates.Registration):
            assert news.update.sends_heartbeats is (profile is PeerProfile.CIS_1_1)


def test_a_lost_local_agent_is_announced_again() -> None:
    """The routing table is not changed."""
    told = ValidEvent(unregistered(), LostAgentNotice(WORKER), ALPHA)
    assert effect_of(told, PEER_LIVING, KITCHEN) == ReannounceAgent(WORKER)
