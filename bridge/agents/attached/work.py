"""The calls of attached programs about their tasks."""

from collections.abc import Callable, Sequence

from bridge.agents.attached.attached import AttachedAgents
from bridge.agents.attached.attachment import Phase
from bridge.agents.attached.session import AttachedSession
from bridge.agents.local.reporting import progress_content
from bridge.agents.work import TaskAssignment, WorkOutcome
from bridge.tasks.errors import TaskError


class AttachedWork:
    """Refusals are raised as `MatrixError`. Raises `ConnectionLost` while Postgres is unavailable; every call
    may be repeated."""

    def __init__(self, agents: AttachedAgents, *, monotonic: Callable[[], float]) -> None:
        self._agents = agents
        self._monotonic = monotonic

    async def alive(self, session: AttachedSession, working: Sequence[str] | None = None) -> None:
        """Record that the program is alive. The registration and the leases are refreshed a few times per
        heartbeat interval."""
        now = self._monotonic()
        pause = self._agents.limits.heartbeat / 3
        if now - session.announced_at >= pause:
            session.announced_at = now
            await self._agents.announce(session.address, session.program)
        if now - session.renewed_at >= pause:
            session.renewed_at = now
            task_service = self._agents.task_service()
            begun = session.begun() if working is None else session.tasks(working)
            for task in begun:
                await task_service.renew(task.key, session.runner, self._agents.lease())

    async def take(
        self, agent_id: str, session_name: str, wait: float, working: list[str]
    ) -> tuple[TaskAssignment | None, list[str]]:
        """Wait for the next task. Returns the task and those of `working` that were cancelled; both are empty
        on timeout.

        Only the call counts as a heartbeat, not the time that it waits: a program that calls again does so in
        time.
        """
        until = self._monotonic() + min(wait, self._agents.limits.heartbeat)
        while True:
            session = self._agents.session(agent_id, session_name)
            await self.alive(session)
            now = self._monotonic()
            self._agents.task_service_for_delivery()
            found = session.next(working, now, until)
            if isinstance(found, TaskAssignment):
                return found, session.attachment.cancelled_of(working)
            if isinstance(found, list):
                return None, found
            if now >= until:
                return None, []
            await session.wait_for_change(found - now)

    async def begin(self, session: AttachedSession, work_id: str, attempt: int) -> bool:
        """Begin a task. The program may work on it only if this returns True."""
        phase = self._phase(session, work_id, attempt)
        task = session.task(work_id)
        if phase is Phase.BEGUN:
            return True
        if phase is not Phase.OFFERED or task is None:
            return False
        begun = await self._agents.task_service().begin(
            task.key, runner=session.runner, lease_until=self._agents.lease(), by=session.address
        )
        if begun is None:
            session.withdraw(work_id)
            return False
        session.attachment.begin(work_id)
        return self._phase(session, work_id, attempt) is Phase.BEGUN

    async def progress(self, session: AttachedSession, work_id: str, attempt: int, text: str) -> bool:
        if not await self.begin(session, work_id, attempt):
            return False
        task = session.task(work_id)
        if task is None:
            return False
        await self._agents.task_service().progress(task.key, progress_content(text), by=session.address)
        return True

    async def finish(self, session: AttachedSession, work_id: str, attempt: int, outcome: WorkOutcome) -> bool:
        """Store the outcome of a task. False if it is no longer wanted."""
        phase = self._phase(session, work_id, attempt)
        if phase is Phase.FINISHED:
            return True
        if phase is None:
            return False
        # A task that the program refuses need not be begun.
        is_refused = isinstance(outcome, TaskError)
        if not is_refused and not await self.begin(session, work_id, attempt):
            return False
        task = session.task(work_id)
        if task is None:
            return False
        task_service = self._agents.task_service()
        if isinstance(outcome, TaskError):
            await task_service.fail(task.key, outcome, by=session.address)
        else:
            await task_service.finish(task.key, outcome, by=session.address)
        session.finish(work_id, attempt)
        return True

    def _phase(self, session: AttachedSession, work_id: str, attempt: int) -> Phase | None:
        """The phase of a task; None if another session has replaced this one."""
        if session.has_ended:
            return None
        return session.attachment.phase_of(work_id, attempt, self._monotonic())
