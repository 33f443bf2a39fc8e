"""Decides what this node does because of a valid event of a peer: an effect, which `service.dispatch` carries
out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents import updates as agent_updates
from bridge.agents.address import AgentAddress
from bridge.connectors.cis import heartbeats, task_events
from bridge.connectors.cis.examination import LostAgentNotice, ValidEvent
from bridge.connectors.cis.protocol import events
from bridge.connectors.cis.protocol.error_codes import to_answer
from bridge.connectors.cis.protocol.events import AgentEvent, Heartbeat, Registered, StatusUpdate, Unregistered
from bridge.connectors.cis.protocol.request_ids import task_key
from bridge.connectors.cis.protocol.rooms import FederationRoom
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.peers.peer import Peer, PeerProfile
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import TaskKey, TaskRequest

NO_REASON = "unregistered"

AgentUpdate = (
    agent_updates.Registration
    | agent_updates.Unregistration
    | agent_updates.StatusUpdate
    | agent_updates.AgentHeartbeat
)
"""What an agent event reports, in the form that the routing table accepts."""


def agent_update(event: AgentEvent, *, sends_heartbeats: bool) -> AgentUpdate:
    """`sends_heartbeats`: each agent of this peer sends its own heartbeats."""
    match event:
        case Registered():
            return agent_updates.Registration(
                event.agent, NAME, event.runtime_type, event.capabilities, event.sent_at, sends_heartbeats
            )
        case Unregistered():
            return agent_updates.Unregistration(event.agent, event.reason or NO_REASON, event.sent_at)
        case StatusUpdate():
            return agent_updates.StatusUpdate(event.agent, event.status, event.current_task, event.sent_at)
        case Heartbeat():
            return heartbeats.of_event(event)
    raise AssertionError(f"{event.TYPE} reports on no agent")


@dataclass(frozen=True, slots=True)
class UpdateAgent:
    """Apply an update to the routing table."""

    update: AgentUpdate


@dataclass(frozen=True, slots=True)
class ReannounceAgent:
    """Announce an agent of this node again: the peer believes that it is offline."""

    agent: AgentAddress


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """Submit a task to the task service. `event` is the event that requested it."""

    request: TaskRequest
    event: events.TaskRequest
    namespace: str


@dataclass(frozen=True, slots=True)
class RejectTask:
    """Answer a request that cannot become a task with an error."""

    event: events.TaskRequest
    error: TaskError
    namespace: str
    node_id: str


@dataclass(frozen=True, slots=True)
class FinishTask:
    """Store the answer to a task that this node requested."""

    key: TaskKey
    answer: Answer
    by: AgentAddress


@dataclass(frozen=True, slots=True)
class ReportProgress:
    """Store progress of a task that this node requested. `request_id` is None if the message names no task:
    then the progress belongs to the only open task between the two agents."""

    request_id: str | None
    content: Mapping[str, Any]
    by: AgentAddress
    to: AgentAddress | None


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Cancel a task that the peer requested."""

    key: TaskKey
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class DeliverMessage:
    """Pass any other message to the subscribed listeners."""

    message: events.Message


Effect = (
    UpdateAgent | ReannounceAgent | SubmitTask | RejectTask | FinishTask | ReportProgress | CancelTask | DeliverMessage
)

NOT_LOCAL: Final = "The node {own} accepts tasks only for its own agents, and {agent} is not one of them."
"""A task is never forwarded to a third node: each node decides for itself which peers it trusts."""


def effect_of(valid: ValidEvent, peer: Peer, settings: CisSettings) -> Effect:
    event, sender = valid.event, valid.sender
    if isinstance(sender, LostAgentNotice):
        return ReannounceAgent(sender.agent)
    match event:
        case events.TaskRequest():
            room = valid.room
            namespace = room.namespace if isinstance(room, FederationRoom) else settings.main_namespace
            if not settings.is_own(event.to_agent):
                reason = NOT_LOCAL.format(own=settings.node_id, agent=event.to_agent)
                error = TaskError(ErrorCode.AGENT_NOT_FOUND, reason)
                return RejectTask(event, error, namespace, peer.node_id)
            request = task_events.to_task_request(event, sender, peer.node_id, namespace)
            return SubmitTask(request, event, namespace)
        case events.TaskResponse():
            key = task_key(event.request_id, settings.node_id)
            return FinishTask(key, to_answer(event.result), event.from_agent)
        case events.Message(message_type=task_events.PROGRESS):
            named = task_events.referenced_request(event)
            return ReportProgress(named, task_events.progress_of(event), event.from_agent, event.to_agent)
        case events.Message(message_type=task_events.CANCEL):
            named = task_events.referenced_request(event)
            if named is None:
                return DeliverMessage(event)
            by, given_reason = str(sender.agent), task_events.reason_of(event)
            return CancelTask(TaskKey(peer.node_id, named), by, given_reason)
        case events.Message():
            return DeliverMessage(event)
        case _:
            # A published node sends a separate heartbeat for each of its agents.
            return UpdateAgent(agent_update(event, sends_heartbeats=peer.profile is PeerProfile.CIS_1_1))
