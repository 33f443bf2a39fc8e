"""Brings tasks to agents of other nodes, and answers to whoever asked from there."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis import task_events
from bridge.connectors.cis.protocol.events import Message, TaskRequest
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import Channels, Letter, NotSaid
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, Rejected, RetryLater
from bridge.tasks.task import Task
from federation.matrix.errors import PeerError

CANCELLED_LATE_MS: Final = 300_000
"""For so long it is worth saying that a task is not wanted any more: perhaps its time was over."""
ANSWERED_LATE_MS: Final = 24 * 3_600_000
"""An answer is worth so much after the deadline of its task: whoever asked may have been away."""


class TaskDelivery:
    """Satisfies `bridge.tasks.ports.Delivery`."""

    def __init__(self, settings: CisSettings, channels: Channels, *, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._channels = channels
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
            case NotSaid(reason, is_final=True):
                return Rejected(TaskError(ErrorCode.INVALID_PAYLOAD, reason))
            case NotSaid(reason):
                return RetryLater(reason)
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        """Wherever the task went, it went from this node."""
        access = self._access(task)
        event = task_events.cancel_event(task, self._settings, self._now_ms())
        if access is not None and not isinstance(event, TaskError):
            outcome = await self._send(access, task, event)
            if isinstance(outcome, NotSaid) and not outcome.is_final:
                raise PeerError(access.peer.node_id, outcome.reason)
        return True

    def _access(self, task: Task) -> PeerAccess | None:
        return self._settings.access(task.request.to_address.node_id)

    async def _send(
        self, access: PeerAccess, task: Task, event: TaskRequest | Message
    ) -> NotSaid | TaskError | None:
        """None: it is on its way."""
        namespace = await self._channels.namespace_of(access.peer, task.request.to_address)
        if namespace is None:
            reason = f"This node and {access.peer.node_id} have no namespace in common."
            return TaskError(ErrorCode.AGENT_NOT_FOUND, reason)
        is_request = isinstance(event, TaskRequest)
        letter = Letter(
            event,
            namespace,
            task_events.requester(task, self._settings),
            f"task {task.id} {'request' if is_request else 'cancel'}",
            task.deadline if is_request else self._now_ms() + CANCELLED_LATE_MS,
            task.key if is_request else None,
        )
        outcome = await self._channels.send(access, letter)
        return outcome if isinstance(outcome, NotSaid) else None


class TaskReply:
    """Satisfies `bridge.tasks.ports.Reply`."""

    def __init__(
        self,
        settings: CisSettings,
        channels: Channels,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._channels = channels
        self._observer = observer
        self._now_ms = now_ms

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        name = f"task {task.id} progress {secrets.token_hex(8)}"
        event = task_events.progress_event(task, content, name, self._now_ms())
        await self._send(task, event.from_agent, event, name)

    async def answer(self, task: Task) -> None:
        event = task_events.response_event(task, self._now_ms())
        await self._send(task, event.from_agent, event, f"task {task.id} answer {task.asked}")

    async def _send(self, task: Task, speaker: AgentAddress, event: Any, name: str) -> None:
        back = task_events.return_address(task)
        access = self._settings.access(back.node_id)
        if access is None:
            return  # the configuration has been changed since
        # The address in the request need not be an agent of this node.
        if not self._settings.is_own(speaker):
            speaker = self._settings.node_address
        letter = Letter(event, back.namespace, speaker, name, task.deadline + ANSWERED_LATE_MS)
        outcome = await self._channels.send(access, letter)
        if isinstance(outcome, NotSaid):
            if not outcome.is_final:
                raise PeerError(back.node_id, outcome.reason)
            self._observer.problem(f"{back.node_id} could not be answered: {outcome.reason}", None)
