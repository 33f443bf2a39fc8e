"""What follows from an event of a peer that is taken.

What an event says of an agent, as the routing table takes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents import updates as agent_updates
from bridge.agents.address import AgentAddress
from bridge.connectors.cis import heartbeats, task_events
from bridge.connectors.cis.examination import Taken, ToldGone
from bridge.connectors.cis.protocol import events
from bridge.connectors.cis.protocol.error_codes import answer_of
from bridge.connectors.cis.protocol.events import (
    AgentEvent,
    Heartbeat,
    Registered,
    StatusUpdate,
    Unregistered,
)
from bridge.connectors.cis.protocol.request_ids import key_of
from bridge.connectors.cis.protocol.rooms import FederationRoom
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.peers.peer import Peer, PeerProfile
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import TaskKey, TaskRequest

NO_REASON = "unregistered"

Said = (
    agent_updates.Registration
    | agent_updates.Unregistration
    | agent_updates.StatusUpdate
    | agent_updates.AgentHeartbeat
)


def news_of(event: AgentEvent, *, sends_heartbeats: bool) -> Said:
    """`sends_heartbeats`: the agents of this peer send heartbeats of their own."""
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
    raise AssertionError(f"{event.TYPE} says nothing of an agent")


@dataclass(frozen=True, slots=True)
class News:
    """For the routing table."""

    said: Said


@dataclass(frozen=True, slots=True)
class Missed:
    """The peer believes that an agent of ours is gone."""

    agent: AgentAddress


@dataclass(frozen=True, slots=True)
class Asked:
    """A task for the desk. `event` is what asked for it."""

    request: TaskRequest
    event: events.TaskRequest
    namespace: str


@dataclass(frozen=True, slots=True)
class NotAsked:
    """A task that nobody here can have; the peer is told why."""

    event: events.TaskRequest
    error: TaskError
    namespace: str
    node_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a task of ours."""

    key: TaskKey
    answer: Answer
    by: AgentAddress


@dataclass(frozen=True, slots=True)
class Progressed:
    """`request_id` is None where it is not said of which task: of the only one that there is between the
    two."""

    request_id: str | None
    content: Mapping[str, Any]
    by: AgentAddress
    to: AgentAddress | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The peer no longer wants a task that it asked for."""

    key: TaskKey
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that is none of the above, for whoever listens."""

    message: events.Message


Effect = News | Missed | Asked | NotAsked | Answered | Progressed | Cancelled | Heard

NOT_HERE: Final = "The node {own} speaks for its own agents alone, and {agent} is none of them."
"""Nobody's tasks are passed on to a third node: whom that one trusts is its own affair."""


def effect_of(taken: Taken, peer: Peer, settings: CisSettings) -> Effect:
    event, sender = taken.event, taken.sender
    if isinstance(sender, ToldGone):
        return Missed(sender.agent)
    match event:
        case events.TaskRequest():
            room = taken.room
            namespace = room.namespace if isinstance(room, FederationRoom) else settings.main_namespace
            if not settings.is_own(event.to_agent):
                reason = NOT_HERE.format(own=settings.node_id, agent=event.to_agent)
                error = TaskError(ErrorCode.AGENT_NOT_FOUND, reason)
                return NotAsked(event, error, namespace, peer.node_id)
            request = task_events.requested(event, sender, peer.node_id, namespace)
            return Asked(request, event, namespace)
        case events.TaskResponse():
            key = key_of(event.request_id, settings.node_id)
            return Answered(key, answer_of(event.result), event.from_agent)
        case events.Message(message_type=task_events.PROGRESS):
            named = task_events.named_request(event)
            return Progressed(named, task_events.progress_of(event), event.from_agent, event.to_agent)
        case events.Message(message_type=task_events.CANCEL):
            named = task_events.named_request(event)
            if named is None:
                return Heard(event)
            by, why = str(sender.agent), task_events.reason_of(event)
            return Cancelled(TaskKey(peer.node_id, named), by, why)
        case events.Message():
            return Heard(event)
        case _:
            # Published nodes send a heartbeat for each agent.
            return News(news_of(event, sends_heartbeats=peer.profile is PeerProfile.CIS_1_1))
