"""What programs that are attached say of their tasks."""

from collections.abc import Callable, Sequence

from bridge.agents.attached.attached import AttachedAgents
from bridge.agents.attached.attachment import Phase
from bridge.agents.attached.session import AttachedSession
from bridge.agents.local.reporting import progress_content
from bridge.agents.work import TaskToDo, WorkOutcome
from bridge.tasks.errors import TaskError


class AttachedWork:
    """What it refuses is a `MatrixError`. While Postgres is away it raises `ConnectionLost`; whatever was
    said may be said again."""

    def __init__(
        self,
        agents: AttachedAgents,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._agents = agents
        self._monotonic = monotonic

    async def alive(self, session: AttachedSession, working: Sequence[str] | None = None) -> None:
        """A sign of life. Now and then it is passed on."""
        now = self._monotonic()
        pause = self._agents.limits.heartbeat / 3
        if now - session.said_at >= pause:
            session.said_at = now
            await self._agents.announce(session.address, session.program)
        if now - session.renewed_at >= pause:
            session.renewed_at = now
            desk = self._agents.desk()
            begun = session.begun() if working is None else session.tasks(working)
            for task in begun:
                await desk.renew(task.key, session.runner, self._agents.lease())

    async def take(
        self, agent_id: str, session_name: str, wait: float, working: list[str]
    ) -> tuple[TaskToDo | None, list[str]]:
        """The next task, or what of `working` is not wanted any more, or neither when the time is over.

        To have asked is a sign of life, and to go on waiting is none: who asks again is heard in time."""
        until = self._monotonic() + min(wait, self._agents.limits.heartbeat)
        while True:
            session = self._agents.session(agent_id, session_name)
            await self.alive(session)
            now = self._monotonic()
            self._agents.giving_desk()
            found = session.next(working, now, until)
            if isinstance(found, TaskToDo):
                return found, session.attachment.unwanted(working)
            if isinstance(found, list):
                return None, found
            if now >= until:
                return None, []
            await session.news(found - now)

    async def begin(self, session: AttachedSession, work_id: str, attempt: int) -> bool:
        """Whether it is wanted. Nothing may be done for it before."""
        phase = self._phase(session, work_id, attempt)
        task = session.task(work_id)
        if phase is Phase.BEGUN:
            return True
        if phase is not Phase.OFFERED or task is None:
            return False
        begun = await self._agents.desk().begin(
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
        await self._agents.desk().progress(task.key, progress_content(text), by=session.address)
        return True

    async def finish(
        self, session: AttachedSession, work_id: str, attempt: int, outcome: WorkOutcome
    ) -> bool:
        """Whether it counts. On return it is stored."""
        phase = self._phase(session, work_id, attempt)
        if phase is Phase.OVER:
            return True
        if phase is None:
            return False
        # One that is refused need not be begun.
        is_refused = isinstance(outcome, TaskError)
        if not is_refused and not await self.begin(session, work_id, attempt):
            return False
        task = session.task(work_id)
        if task is None:
            return False
        desk = self._agents.desk()
        if isinstance(outcome, TaskError):
            await desk.fail(task.key, outcome, by=session.address)
        else:
            await desk.finish(task.key, outcome, by=session.address)
        session.finish(work_id, attempt)
        return True

    def _phase(self, session: AttachedSession, work_id: str, attempt: int) -> Phase | None:
        """A session whose place another one has taken has nothing to say."""
        if session.has_ended:
            return None
        return session.attachment.phase(work_id, attempt, self._monotonic())
