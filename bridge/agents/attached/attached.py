"""Agents that are programs attached to the node from outside, on this machine or another.

The token of a program identifies its agent. A program chooses a name for its session; the newest session of
an agent is the valid one. Tasks that a session has begun stay its own while it sends heartbeats, also across
a restart of the node.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, StatusInput
from bridge.agents.attached.attachment import Phase
from bridge.agents.attached.session import RUNNER_PREFIX, AttachedSession, Program
from bridge.agents.routing_table import Change, RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.agents.updates import LimitReached, Registration, Unregistration, Updated, UpdateOutcome
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, NotInThisProcess
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from bridge.tasks.task import State, Task
from federation.matrix.errors import MatrixError, limit_exceeded
from storage.concurrency import BackgroundTasks, KeyedLock

CONNECTOR: Final = "attached"
CANCEL_FORWARD_MS: Final = 60_000
"""Time after the end of a task in which its cancellation is forwarded to the process that may still run
it."""
DETACHED_SETTINGS: Final = AgentSettings(1, 100)
"""The settings of an agent that is not attached at the moment."""


@dataclass(frozen=True, slots=True)
class AttachedLimits:
    """Times in seconds."""

    heartbeat: float = 30.0
    timeout: float = 120.0
    begin_timeout: float = 10.0
    """Time in which an offered task must be begun before it is offered again."""
    max_agents: int = 10_000


def no_reservation(address: AgentAddress) -> str | None:
    """The default: no address is reserved."""
    return None


class AttachedAgents:
    """A `Delivery` to attached agents. `is_reserved` tells whether an id belongs to an agent that the node
    runs itself. `reserved_for` returns a sentence if an address is reserved for something else. Refusals are
    raised as `MatrixError`."""

    def __init__(
        self,
        routes: RoutingTable,
        *,
        statuses: AgentStatuses,
        is_reserved: Callable[[str], bool],
        reserved_for: Callable[[AgentAddress], str | None] = no_reservation,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        limits: AttachedLimits | None = None,
    ) -> None:
        self._routes = routes
        self._statuses = statuses
        self._is_reserved = is_reserved
        self._reserved_for = reserved_for
        self._now_ms = now_ms
        self._monotonic = monotonic
        self.limits = limits or AttachedLimits()
        self._tasks: TaskService | None = None
        self._is_stopping = False
        self._sessions: dict[str, AttachedSession] = {}
        # One operation at a time for each agent.
        self._locks: KeyedLock[str] = KeyedLock()
        self._background = BackgroundTasks()
        self._unsubscribe = routes.subscribe(self._changed)

    def use_task_service(self, task_service: TaskService) -> None:
        self._tasks = task_service

    def stop(self) -> None:
        """Offer no more tasks. Programs may still answer what they have begun, now or after the next
        start."""
        self._is_stopping = True
        for session in self._sessions.values():
            session.wake()

    async def close(self) -> None:
        self._unsubscribe()
        await self._background.close()

    # -- attaching and detaching --

    async def register(self, agent_id: str, program: Program, working: Mapping[str, int]) -> Mapping[str, int]:
        """Attach a program. `working` are the tasks that it has begun, with their attempts; returns those
        that it may continue."""
        task_service = self.task_service_for_delivery()
        async with self._locks.hold(agent_id):
            address = AgentAddress(agent_id, self._routes.node_id)
            self._check_address(address)
            _require_updated(await self.announce(address, program))
            old = self._sessions.get(agent_id)
            session = (
                old
                if old is not None and old.program.session == program.session
                else self._replace_session(program, address)
            )
            session.program = program
            session.attachment.parallel = program.parallel
            lost = [] if old is None or old is session else old.begun()
            for task in await task_service.agent_attached(address):
                if not await self._restore_task(task_service, session, task, working):
                    lost.append(task)
            await self._interrupt(task_service, lost)
            session.wake()
            return {
                work_id: attempt
                for work_id, attempt in working.items()
                if session.attachment.phase_of(work_id, attempt, self._monotonic()) is Phase.BEGUN
            }

    async def unregister(self, agent_id: str, session_name: str, reason: str) -> None:
        """Detach a program. Repeating it changes nothing."""
        async with self._locks.hold(agent_id):
            if agent_id in self._sessions:
                await self._end_session(self.session(agent_id, session_name), reason)
            else:
                # The agent may have attached itself before this process started.
                await self._unregister(AgentAddress(agent_id, self._routes.node_id), reason)

    def detach_revoked(self, token_id: str) -> None:
        """Detach all programs that use this token."""
        for session in list(self._sessions.values()):
            if session.program.token_id == token_id:
                self._background.spawn("detach an agent", self._end_session(session, "token revoked"))

    def session(self, agent_id: str, name: str) -> AttachedSession:
        """Return the agent's session. Raises `MatrixError` unless `name` is the newest one."""
        session = self._sessions.get(agent_id)
        if session is None:
            raise MatrixError("PALAVER_NOT_ATTACHED", "The agent is not attached: register it first.", 409)
        if session.program.session != name:
            raise MatrixError("PALAVER_SESSION_REPLACED", "Another program is attached as this agent now: stop.", 409)
        return session

    def is_attached(self, agent_id: str) -> bool:
        return agent_id in self._sessions

    def settings(self, agent: Agent) -> AgentSettings | None:
        """The agent's settings; None if it is not an attached agent."""
        if agent.connector != CONNECTOR or agent.node_id != self._routes.node_id:
            return None
        session = self._sessions.get(agent.agent_id)
        return DETACHED_SETTINGS if session is None else session.settings

    def set_status(self, session: AttachedSession, *, has_failed: bool) -> None:
        """Apply a status that the agent reports. An idle agent that reports an error becomes busy first,
        because only a busy agent can fail."""
        if not has_failed:
            self._statuses.apply(session.address, StatusInput.RECOVER)
        elif not self._statuses.apply(session.address, StatusInput.ERROR):
            self._statuses.apply(session.address, StatusInput.START)
            self._statuses.apply(session.address, StatusInput.ERROR)

    # -- called by the task service --

    async def deliver(self, task: Task) -> DeliveryOutcome:
        session = self._sessions.get(task.request.to_address.agent_id)
        if session is None or self._is_stopping:
            return NotInThisProcess()
        session.deliver(task)
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        session = self._sessions.get(task.request.to_address.agent_id)
        if session is not None and session.withdraw(str(task.id)):
            return True
        # The program may be attached to another process of the node. That process is notified, for a limited
        # time.
        ended_ago = self._now_ms() - (task.finished_at or 0)
        return task.runner is None or session is not None or ended_ago > CANCEL_FORWARD_MS

    # -- internal --

    def task_service(self) -> TaskService:
        if self._tasks is None:
            raise limit_exceeded("The node is starting: try again.", 503, 1_000)
        return self._tasks

    def task_service_for_delivery(self) -> TaskService:
        if self._is_stopping:
            raise limit_exceeded("The node is stopping: try again.", 503, 1_000)
        return self.task_service()

    def lease(self) -> int:
        """The end of a lease that is renewed now."""
        return self._now_ms() + round(self.limits.timeout * 1000)

    def _check_address(self, address: AgentAddress) -> None:
        """Raise `MatrixError` if a program may not attach itself under this address."""
        reserved_for = self._reserved_for(address)
        if reserved_for is not None:
            raise MatrixError("M_FORBIDDEN", reserved_for, 403)
        known = self._routes.agent(address)
        other = known is not None and known.is_online and known.connector != CONNECTOR
        if other or self._is_reserved(address.agent_id):
            raise MatrixError("M_FORBIDDEN", "The node runs an agent with this id itself: use another id.", 403)
        if address.agent_id not in self._sessions and len(self._sessions) >= self.limits.max_agents:
            raise limit_exceeded("Too many agents are attached to this node.", 429, 60_000)

    async def announce(self, address: AgentAddress, program: Program) -> UpdateOutcome:
        """Register the agent with its current status. A heartbeat would contain a status that may be older
        than an update in transit."""
        known = self._routes.agent(address)
        # If the clock was set back, the update must still be newer than the last one.
        at_ms = self._now_ms() if known is None else max(self._now_ms(), known.sent_at + (not known.is_online))
        [outcome] = await self._routes.update(
            [Registration(address, CONNECTOR, program.runtime, program.capabilities, at_ms, sends_heartbeats=True)]
        )
        return outcome

    def _replace_session(self, program: Program, address: AgentAddress) -> AttachedSession:
        old = self._sessions.get(address.agent_id)
        session = AttachedSession(address, program, self.limits.begin_timeout)
        self._sessions[address.agent_id] = session
        if old is not None:
            for task in old.not_begun():
                session.deliver(task)
            old.end()
        return session

    async def _restore_task(
        self, task_service: TaskService, session: AttachedSession, task: Task, working: Mapping[str, int]
    ) -> bool:
        """Hand a task of the agent that has not ended to the session. False if the task is lost because
        another session had begun it."""
        work_id = str(task.id)
        if task.state is State.ACCEPTED:
            session.deliver(task)
        elif task.state is State.RUNNING and task.runner == session.runner:
            attempt = working.get(work_id)
            if session.task(work_id) is None and attempt is not None:
                renewed = await task_service.renew(task.key, session.runner, self.lease())
                if renewed is not None and renewed.state is State.RUNNING:
                    session.resume(renewed, attempt)
        elif task.state is State.RUNNING:
            return not (task.runner or "").startswith(RUNNER_PREFIX)
        return True

    async def _interrupt(self, task_service: TaskService, tasks: Sequence[Task]) -> None:
        reason = "The program that ran the task has detached. Whether the work was done is not known."
        error = TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
        for task in tasks:
            await task_service.fail(task.key, error, by=task.request.to_address)

    async def _end_session(self, session: AttachedSession, reason: str) -> None:
        task_service = self.task_service()
        begun = session.begun()
        if self._sessions.get(session.address.agent_id) is session:
            del self._sessions[session.address.agent_id]
        session.end()
        await self._interrupt(task_service, begun)
        await self._unregister(session.address, reason)

    async def _unregister(self, address: AgentAddress, reason: str) -> None:
        known = self._routes.agent(address)
        if known is not None and known.is_online and known.connector == CONNECTOR:
            await self._routes.update([Unregistration(address, reason, max(self._now_ms(), known.sent_at))])

    def _changed(self, changes: Sequence[Change]) -> None:
        """End the session of an agent that timed out. The agent has to register again."""
        for change in changes:
            agent = change.after
            if agent is None or agent.node_id != self._routes.node_id or agent.is_online:
                continue
            session = self._sessions.pop(agent.agent_id, None)
            if session is not None:
                session.end()


def _require_updated(outcome: UpdateOutcome) -> None:
    if isinstance(outcome, LimitReached):
        raise limit_exceeded("This node has reached its limit of agents.", 429, 60_000)
    if not isinstance(outcome, Updated):
        # A newer update was stored at the same moment.
        raise limit_exceeded("The agent could not be registered now: try again.", 503, 1_000)
