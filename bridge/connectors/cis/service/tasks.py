"""Brings tasks to agents of other nodes, and answers to whoever asked from there."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from bridge.address import AgentAddress
from bridge.connectors.cis import task_events
from bridge.connectors.cis.act import CisObserver
from bridge.connectors.cis.events import Message, TaskRequest, TaskResponse
from bridge.connectors.cis.service.channels import Channels, Letter
from bridge.connectors.cis.service.speech import NotSaid
from bridge.connectors.cis.settings import CisSettings, PeerAccess
from bridge.task import Task
from bridge.task_error import ErrorCode, TaskError
from bridge.task_ports import Delivered, DeliveryOutcome, NotNow, Rejected
from bridge.task_request import TaskKey
from federation.bounded_cache import BoundedCache
from federation.errors import PeerError

CANCELLED_LATE_MS: Final = 300_000
"""For so long it is worth saying that a task is not wanted any more: perhaps its time was over."""
ANSWERED_LATE_MS: Final = 24 * 3_600_000
"""An answer is worth so much after the deadline of its task: whoever asked may have been away."""
MOST_READY: Final = 16
"""Tasks of which is kept what was made for a step that may never be stored."""
READY_FOR_MS: Final = 1_000
"""It tells the time, and how much of it is left."""

E = TypeVar("E")


class Ready(NamedTuple, Generic[E]):
    """An event, and its content as it will be sent."""

    event: E
    content: Mapping[str, Any]
    task: Task
    at: int


class _MadeReady(Generic[E]):
    """What was made of tasks as they were to be."""

    def __init__(self) -> None:
        self._made: BoundedCache[TaskKey, Ready[E]] = BoundedCache(MOST_READY)

    def put(self, ready: Ready[E]) -> None:
        self._made.put(ready.task.request.key, ready)

    def take(self, task: Task, now_ms: int) -> Ready[E] | None:
        """Of this very step. Another one may have been stored in its place, under the same number."""
        key = task.request.key
        ready = self._made.get(key)
        if ready is None:
            return None
        self._made.forget(key)
        made = ready.task
        is_same = (
            made.request is task.request
            and made.answer is task.answer
            and (made.version, made.received_at, made.deadline)
            == (task.version, task.received_at, task.deadline)
            and 0 <= now_ms - ready.at <= READY_FOR_MS
        )
        return ready if is_same else None


class TaskDelivery:
    """Satisfies `bridge.task_ports.Delivery`, and `MakesReady`."""

    def __init__(self, settings: CisSettings, channels: Channels, *, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._channels = channels
        self._now_ms = now_ms
        self._ready: _MadeReady[TaskRequest] = _MadeReady()

    def make_ready(self, task: Task) -> None:
        access, now_ms = self._access(task), self._now_ms()
        namespace = None if access is None else self._channels.only_namespace(access.peer)
        if access is None or namespace is None:
            return
        event = task_events.request_event(task, self._settings, now_ms)
        if isinstance(event, TaskError):
            return
        speaker = task_events.requester(task, self._settings)
        content = self._channels.make_ready(access, event, namespace, speaker)
        if content is not None:
            self._ready.put(Ready(event, content, task, now_ms))

    async def deliver(self, task: Task) -> DeliveryOutcome:
        access = self._access(task)
        if access is None:
            node_id = task.request.to_address.node_id
            reason = f"This node does not exchange agents with {node_id}."
            return Rejected(TaskError(ErrorCode.NODE_UNREACHABLE, reason))
        now_ms = self._now_ms()
        ready = self._ready.take(task, now_ms)
        event = task_events.request_event(task, self._settings, now_ms) if ready is None else ready.event
        if isinstance(event, TaskError):
            return Rejected(event)
        outcome = await self._send(access, task, event, None if ready is None else ready.content)
        match outcome:
            case TaskError():
                return Rejected(outcome)
            case NotSaid(reason, is_final=True):
                return Rejected(TaskError(ErrorCode.INVALID_PAYLOAD, reason))
            case NotSaid(reason):
                return NotNow(reason)
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
        self,
        access: PeerAccess,
        task: Task,
        event: TaskRequest | Message,
        ready: Mapping[str, Any] | None = None,
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
            ready,
        )
        outcome = await self._channels.send(access, letter)
        return outcome if isinstance(outcome, NotSaid) else None


class TaskReply:
    """Satisfies `bridge.task_ports.Reply`, and `MakesReady`."""

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
        self._ready: _MadeReady[TaskResponse] = _MadeReady()

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        name = f"task {task.id} progress {secrets.token_hex(8)}"
        event = task_events.progress_event(task, content, name, self._now_ms())
        await self._send(task, event.from_agent, event, name)

    def make_ready(self, task: Task) -> None:
        back, now_ms = task_events.return_address(task), self._now_ms()
        access = self._settings.access(back.node_id)
        if access is None:
            return
        event = task_events.response_event(task, now_ms)
        speaker = self._speaker(event.from_agent)
        content = self._channels.make_ready(access, event, back.namespace, speaker)
        if content is not None:
            self._ready.put(Ready(event, content, task, now_ms))

    async def answer(self, task: Task) -> None:
        now_ms, name = self._now_ms(), f"task {task.id} answer {task.asked}"
        ready = self._ready.take(task, now_ms)
        if ready is None:
            event = task_events.response_event(task, now_ms)
            await self._send(task, event.from_agent, event, name)
        else:
            await self._send(task, ready.event.from_agent, ready.event, name, ready.content)

    def _speaker(self, named: AgentAddress) -> AgentAddress:
        """An address as somebody else gave it need not be one of ours."""
        return named if self._settings.is_own(named) else self._settings.node_address

    async def _send(
        self,
        task: Task,
        speaker: AgentAddress,
        event: Any,
        name: str,
        ready: Mapping[str, Any] | None = None,
    ) -> None:
        back = task_events.return_address(task)
        access = self._settings.access(back.node_id)
        if access is None:
            return  # the configuration has been changed since
        until = task.deadline + ANSWERED_LATE_MS
        letter = Letter(event, back.namespace, self._speaker(speaker), name, until, ready=ready)
        outcome = await self._channels.send(access, letter)
        if isinstance(outcome, NotSaid):
            if not outcome.is_final:
                raise PeerError(back.node_id, outcome.reason)
            self._observer.problem(f"{back.node_id} could not be answered: {outcome.reason}", None)
