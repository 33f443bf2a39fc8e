"""Delivers tasks to agents of other nodes, and answers to requesters on other nodes."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis import task_events
from bridge.connectors.cis.protocol.events import Message, TaskRequest
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, PeerMessenger
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, Rejected, RetryLater
from bridge.tasks.task import Task
from federation.matrix.errors import PeerError

CANCEL_VALIDITY_MS: Final = 300_000
"""How long a cancellation is retried, counted from the cancellation: the task's deadline may have passed."""
ANSWER_VALIDITY_MS: Final = 24 * 3_600_000
"""How long an answer is retried after the task's deadline: the requester's node may have been offline."""


class TaskDelivery:
    """Implements `bridge.tasks.ports.Delivery` for agents of other nodes."""

    def __init__(self, settings: CisSettings, messenger: PeerMessenger, *, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._messenger = messenger
        self._now_ms = now_ms

    async def deliver(self, task: Task) -> DeliveryOutcome:
        access = self._access(task)
        if access is None:
            node_id = task.request.to_address.node_id
            reason = f"This node does not exchange agents with {node_id}."
            return Rejected(TaskError(ErrorCode.NODE_UNREACHABLE, reason))
        event = task_events.request_event(task, self._settings, self._now_ms())
        if isinstance(event, TaskError):
            return Rejected(event)
        outcome = await self._send(access, task, event)
        match outcome:
            case TaskError():
                return Rejected(outcome)
            case NotSent(reason, is_final=True):
                return Rejected(TaskError(ErrorCode.INVALID_PAYLOAD, reason))
            case NotSent(reason):
                return RetryLater(reason)
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        """Send a cancellation. Every process of this node can do so, so the result is always True."""
        access = self._access(task)
        event = task_events.cancel_event(task, self._settings, self._now_ms())
        if access is not None and not isinstance(event, TaskError):
            outcome = await self._send(access, task, event)
            if isinstance(outcome, NotSent) and not outcome.is_final:
                raise PeerError(access.peer.node_id, outcome.reason)
        return True

    def _access(self, task: Task) -> PeerAccess | None:
        return self._settings.access(task.request.to_address.node_id)

    async def _send(self, access: PeerAccess, task: Task, event: TaskRequest | Message) -> NotSent | TaskError | None:
        """Send the event to the target's node. None means that it is in a durable queue."""
        namespace = await self._messenger.namespace_of(access.peer, task.request.to_address)
        if namespace is None:
            reason = f"This node and {access.peer.node_id} have no namespace in common."
            return TaskError(ErrorCode.AGENT_NOT_FOUND, reason)
        is_request = isinstance(event, TaskRequest)
        outgoing = OutgoingEvent(
            event,
            namespace,
            task_events.sender_of(task, self._settings),
            f"task {task.id} {'request' if is_request else 'cancel'}",
            task.deadline if is_request else self._now_ms() + CANCEL_VALIDITY_MS,
            task.key if is_request else None,
        )
        outcome = await self._messenger.send(access, outgoing)
        return outcome if isinstance(outcome, NotSent) else None


class TaskReply:
    """Implements `bridge.tasks.ports.Reply` for tasks requested by other nodes."""

    def __init__(
        self, settings: CisSettings, messenger: PeerMessenger, observer: CisObserver, *, now_ms: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._messenger = messenger
        self._observer = observer
        self._now_ms = now_ms

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        key = f"task {task.id} progress {secrets.token_hex(8)}"
        event = task_events.progress_event(task, content, key, self._now_ms())
        await self._send(task, event.from_agent, event, key)

    async def answer(self, task: Task) -> None:
        event = task_events.response_event(task, self._now_ms())
        await self._send(task, event.from_agent, event, f"task {task.id} answer {task.asked}")

    async def _send(self, task: Task, sender: AgentAddress, event: Any, key: str) -> None:
        back = task_events.return_address(task)
        access = self._settings.access(back.node_id)
        if access is None:
            return  # the requester's node is no longer a trusted peer
        # The address in the request need not be an agent of this node.
        if not self._settings.is_own(sender):
            sender = self._settings.node_address
        outgoing = OutgoingEvent(event, back.namespace, sender, key, task.deadline + ANSWER_VALIDITY_MS)
        outcome = await self._messenger.send(access, outgoing)
        if isinstance(outcome, NotSent):
            if not outcome.is_final:
                raise PeerError(back.node_id, outcome.reason)
            self._observer.report_problem(f"Failed to answer {back.node_id}: {outcome.reason}", None)
