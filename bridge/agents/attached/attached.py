"""Agents that are programs of their own and have attached themselves, from this machine or another.

Who they are their tokens have shown before. A program chooses a name for its session; the newest session of
an agent counts. What it has begun is kept for it at the desk, as long as it is heard from: longer than this
process, if need be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, StatusInput
from bridge.agents.attached.attachment import Phase
from bridge.agents.attached.session import RUNNER_PREFIX, AttachedSession, Program
from bridge.agents.news import Registered, Taken, TooMany, Unregistered, Verdict
from bridge.agents.routing_table import Change, RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, NotHere
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from bridge.tasks.task import State, Task
from federation.matrix.errors import MatrixError, limit_exceeded
from storage.concurrency import BackgroundTasks, KeyedLock

CONNECTOR: Final = "attached"
TOLD_FOR_MS: Final = 60_000
"""After the end of a task nobody is looked for any more who may still run it."""
UNATTACHED: Final = AgentSettings(1, 100)
"""Of an agent whose program has not come back yet."""


@dataclass(frozen=True, slots=True)
class AttachedLimits:
    """Times in seconds."""

    heartbeat: float = 30.0
    silence: float = 120.0
    begin: float = 10.0
    """For which a task that was offered is offered to nobody else."""
    most: int = 10_000


def for_anybody(address: AgentAddress) -> str | None:
    """No address is kept for others."""
    return None


class AttachedAgents:
    """A `Delivery`. `is_reserved` says which ids belong to agents that the node runs itself; `kept_for` says
    in a sentence whose an address is that no program can attach itself as. What it refuses is a
    `MatrixError`."""

    def __init__(
        self,
        routes: RoutingTable,
        *,
        statuses: AgentStatuses,
        is_reserved: Callable[[str], bool],
        kept_for: Callable[[AgentAddress], str | None] = for_anybody,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        limits: AttachedLimits | None = None,
    ) -> None:
        self._routes = routes
        self._statuses = statuses
        self._is_reserved = is_reserved
        self._kept_for = kept_for
        self._now_ms = now_ms
        self._monotonic = monotonic
        self.limits = limits or AttachedLimits()
        self._desk: TaskService | None = None
        self._is_stopping = False
        self._sessions: dict[str, AttachedSession] = {}
        # Of one agent one thing at a time, of different ones at the same time.
        self._turns: KeyedLock[str] = KeyedLock()
        self._background = BackgroundTasks()
        self._end = routes.subscribe(self._changed)

    def work_for(self, desk: TaskService) -> None:
        self._desk = desk

    def stop(self) -> None:
        """Nobody is given anything any more. What programs have begun they may answer now, or after the next
        start."""
        self._is_stopping = True
        for session in self._sessions.values():
            session.wake()

    async def close(self) -> None:
        self._end()
        await self._background.close()

    # -- coming and going --

    async def register(
        self, agent_id: str, program: Program, working: Mapping[str, int]
    ) -> Mapping[str, int]:
        """`working` is what the program had begun, with the attempt; gives what of it is still wanted."""
        desk = self.giving_desk()
        async with self._turns.hold(agent_id):
            address = AgentAddress(agent_id, self._routes.node_id)
            self._refuse_taken(address)
            _accept(await self.announce(address, program))
            old = self._sessions.get(agent_id)
            session = (
                old
                if old is not None and old.program.session == program.session
                else self._replace(program, address)
            )
            session.program = program
            session.attachment.parallel = program.parallel
            lost = [] if old is None or old is session else old.begun()
            for task in await desk.attached(address):
                if not await self._meet(desk, session, task, working):
                    lost.append(task)
            await self._interrupt(desk, lost)
            session.wake()
            return {
                work_id: attempt
                for work_id, attempt in working.items()
                if session.attachment.phase(work_id, attempt, self._monotonic()) is Phase.BEGUN
            }

    async def unregister(self, agent_id: str, session_name: str, reason: str) -> None:
        """Done twice it is done once."""
        async with self._turns.hold(agent_id):
            if agent_id in self._sessions:
                await self._part(self.session(agent_id, session_name), reason)
            else:
                # Perhaps it was attached before this process began.
                await self._say_goodbye(AgentAddress(agent_id, self._routes.node_id), reason)

    def revoked(self, token_id: str) -> None:
        """Whoever is here with this token has to leave."""
        for session in list(self._sessions.values()):
            if session.program.token_id == token_id:
                self._background.spawn("part with an agent", self._part(session, "token revoked"))

    def session(self, agent_id: str, name: str) -> AttachedSession:
        """Raises `MatrixError` unless it is the newest session of the agent."""
        session = self._sessions.get(agent_id)
        if session is None:
            raise MatrixError("PALAVER_NOT_ATTACHED", "The agent is not attached: register it first.", 409)
        if session.program.session != name:
            raise MatrixError(
                "PALAVER_SESSION_REPLACED", "Another program has taken the place of this one: stop.", 409
            )
        return session

    def is_attached(self, agent_id: str) -> bool:
        return agent_id in self._sessions

    def settings(self, agent: Agent) -> AgentSettings | None:
        """None for an agent that is none of these."""
        if agent.connector != CONNECTOR or agent.node_id != self._routes.node_id:
            return None
        session = self._sessions.get(agent.agent_id)
        return UNATTACHED if session is None else session.settings

    def set_status(self, session: AttachedSession, *, has_failed: bool) -> None:
        """An agent fails while it is busy. One that does so in between is as if it had tried."""
        if not has_failed:
            self._statuses.take(session.address, StatusInput.RECOVER)
        elif not self._statuses.take(session.address, StatusInput.ERROR):
            self._statuses.take(session.address, StatusInput.START)
            self._statuses.take(session.address, StatusInput.ERROR)

    # -- what the desk says --

    async def deliver(self, task: Task) -> DeliveryOutcome:
        session = self._sessions.get(task.request.to_address.agent_id)
        if session is None or self._is_stopping:
            return NotHere()
        session.deliver(task)
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        session = self._sessions.get(task.request.to_address.agent_id)
        if session is not None and session.withdraw(str(task.id)):
            return True
        # The program may be attached to another process of the node, which is told then; for a while.
        ended_ago = self._now_ms() - (task.finished_at or 0)
        return task.runner is None or session is not None or ended_ago > TOLD_FOR_MS

    # -- inside --

    def desk(self) -> TaskService:
        if self._desk is None:
            raise limit_exceeded("The node is starting: ask again.", 503, 1_000)
        return self._desk

    def giving_desk(self) -> TaskService:
        if self._is_stopping:
            raise limit_exceeded("The node is stopping: ask again.", 503, 1_000)
        return self.desk()

    def lease(self) -> int:
        """Until when a task is kept for a program that is heard from now."""
        return self._now_ms() + round(self.limits.silence * 1000)

    def _refuse_taken(self, address: AgentAddress) -> None:
        """Whoever has a token may be one agent, and not take the place of one that the node has otherwise."""
        kept_for = self._kept_for(address)
        if kept_for is not None:
            raise MatrixError("M_FORBIDDEN", kept_for, 403)
        known = self._routes.agent(address)
        other = known is not None and known.is_here and known.connector != CONNECTOR
        if other or self._is_reserved(address.agent_id):
            raise MatrixError(
                "M_FORBIDDEN", "The node itself runs an agent of this name: attach as another one.", 403
            )
        if address.agent_id not in self._sessions and len(self._sessions) >= self.limits.most:
            raise limit_exceeded("Too many agents are attached to this node.", 429, 60_000)

    async def announce(self, address: AgentAddress, program: Program) -> Verdict:
        """It is there, and does what it did. (A heartbeat would say what it does, by a word that may be older
        than one that is on its way.)"""
        known = self._routes.agent(address)
        # A clock that was put back must not make it be taken for old news.
        at_ms = self._now_ms() if known is None else max(self._now_ms(), known.sent_at + (not known.is_here))
        [verdict] = await self._routes.take(
            [Registered(address, CONNECTOR, program.runtime, program.capabilities, at_ms, by_itself=True)]
        )
        return verdict

    def _replace(self, program: Program, address: AgentAddress) -> AttachedSession:
        old = self._sessions.get(address.agent_id)
        session = AttachedSession(address, program, self.limits.begin)
        self._sessions[address.agent_id] = session
        if old is not None:
            for task in old.not_begun():
                session.deliver(task)
            old.end()
        return session

    async def _meet(
        self, desk: TaskService, session: AttachedSession, task: Task, working: Mapping[str, int]
    ) -> bool:
        """A task of the agent that has not ended. False: it was lost with another session."""
        work_id = str(task.id)
        if task.state is State.ACCEPTED:
            session.deliver(task)
        elif task.state is State.RUNNING and task.runner == session.runner:
            attempt = working.get(work_id)
            if session.task(work_id) is None and attempt is not None:
                renewed = await desk.renew(task.key, session.runner, self.lease())
                if renewed is not None and renewed.state is State.RUNNING:
                    session.resume(renewed, attempt)
        elif task.state is State.RUNNING:
            return not (task.runner or "").startswith(RUNNER_PREFIX)
        return True

    async def _interrupt(self, desk: TaskService, tasks: Sequence[Task]) -> None:
        reason = "The program that worked on it is gone. Whether the work was done is not known."
        error = TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
        for task in tasks:
            await desk.fail(task.key, error, by=task.request.to_address)

    async def _part(self, session: AttachedSession, reason: str) -> None:
        desk = self.desk()
        begun = session.begun()
        if self._sessions.get(session.address.agent_id) is session:
            del self._sessions[session.address.agent_id]
        session.end()
        await self._interrupt(desk, begun)
        await self._say_goodbye(session.address, reason)

    async def _say_goodbye(self, address: AgentAddress, reason: str) -> None:
        known = self._routes.agent(address)
        if known is not None and known.is_here and known.connector == CONNECTOR:
            await self._routes.take([Unregistered(address, reason, max(self._now_ms(), known.sent_at))])

    def _changed(self, changes: Sequence[Change]) -> None:
        """One that was not heard from for too long is gone, and has to register again."""
        for change in changes:
            agent = change.after
            if agent is None or agent.node_id != self._routes.node_id or agent.is_here:
                continue
            session = self._sessions.pop(agent.agent_id, None)
            if session is not None:
                session.end()


def _accept(verdict: Verdict) -> None:
    if isinstance(verdict, TooMany):
        raise limit_exceeded("This node has as many agents as it may have.", 429, 60_000)
    if not isinstance(verdict, Taken):
        # Somebody else has said something newer in this very moment.
        raise limit_exceeded("The agent could not be registered now: try again.", 503, 1_000)
