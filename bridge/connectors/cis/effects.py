"""What follows from an event of a peer that is taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.connectors.cis import events, task_events
from bridge.connectors.cis.error_codes import answer_of
from bridge.connectors.cis.examination import Taken
from bridge.connectors.cis.news import Said, news_of
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.profile import PeerProfile
from bridge.connectors.cis.request_ids import key_of
from bridge.connectors.cis.rooms import FederationRoom
from bridge.connectors.cis.sender import ToldGone
from bridge.connectors.cis.settings import CisSettings
from bridge.task_answer import Answer
from bridge.task_error import ErrorCode, TaskError
from bridge.task_request import TaskKey, TaskRequest


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
            return News(news_of(event, by_itself=peer.profile is PeerProfile.CIS_1_1))


def taken_together(effects: Sequence[Effect]) -> int:
    """How many of them, from the first on. Steps of tasks are taken before new tasks are, so that nobody can
    cancel what was asked for among them."""
    asked: set[TaskKey] = set()
    for number, effect in enumerate(effects):
        if isinstance(effect, Asked):
            asked.add(effect.request.key)
        elif isinstance(effect, Cancelled) and effect.key in asked:
            return number
    return len(effects)
