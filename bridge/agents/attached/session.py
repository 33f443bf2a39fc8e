"""One session of a program that is attached as an agent, and those who wait for news of it."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.attached.attachment import Attachment
from bridge.agents.work import TaskToDo, to_do
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.task import Task

RUNNER_PREFIX: Final = "session "
"""What the desk calls it. It may outlive this process, so it does not bear its name."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a program says of itself."""

    session: str
    token_id: str
    runtime: str
    capabilities: tuple[str, ...]
    parallel: int = 1
    queue: int = 100


class AttachedSession:
    """`said_at` and `renewed_at` are when it was last said of it that it lives, and when its tasks were last
    kept for it; seconds of a clock that never runs backwards."""

    def __init__(self, address: AgentAddress, program: Program, offer_lasts: float) -> None:
        self.address = address
        self.program = program
        self.attachment = Attachment(program.parallel, offer_lasts)
        self.said_at = 0.0
        self.renewed_at = 0.0
        self.has_ended = False
        self._tasks: dict[str, Task] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def runner(self) -> str:
        return f"{RUNNER_PREFIX}{self.program.session}"

    @property
    def settings(self) -> AgentSettings:
        return AgentSettings(self.program.parallel, self.program.queue)

    # -- news --

    async def news(self, patience: float) -> None:
        """Returns when there is some, or after so many seconds. Whoever waits has looked right before: what
        has come until then is no news."""
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._waiting.add(waiting)
        late = loop.call_later(patience, _end, waiting)
        try:
            await waiting
        finally:
            late.cancel()
            self._waiting.discard(waiting)

    def wake(self) -> None:
        for waiting in self._waiting:
            _end(waiting)

    def end(self) -> None:
        """Another session has taken its place, or the agent is gone."""
        self.has_ended = True
        self.wake()

    # -- tasks --

    def task(self, work_id: str) -> Task | None:
        return self._tasks.get(work_id)

    def tasks(self, work_ids: Iterable[str]) -> list[Task]:
        return [self._tasks[work_id] for work_id in work_ids if work_id in self._tasks]

    def deliver(self, task: Task) -> None:
        if self.attachment.deliver(to_do(task)):
            self._tasks[str(task.id)] = task
            self.wake()

    def resume(self, task: Task, attempt: int) -> None:
        self._tasks[str(task.id)] = task
        self.attachment.resume(to_do(task, attempt))

    def withdraw(self, work_id: str) -> bool:
        self._tasks.pop(work_id, None)
        was_here = self.attachment.withdraw(work_id)
        if was_here:
            self.wake()
        return was_here

    def give_back(self, work_id: str) -> None:
        """What was offered has not arrived."""
        self.attachment.give_back(work_id)
        self.wake()

    def finish(self, work_id: str, attempt: int) -> None:
        self._tasks.pop(work_id, None)
        self.attachment.finish(work_id, attempt)
        if self.attachment.has_waiting():
            self.wake()  # there is room for the next one

    def begun(self) -> list[Task]:
        return self.tasks(self.attachment.begun())

    def not_begun(self) -> list[Task]:
        return self.tasks(task.work_id for task in self.attachment.not_begun())

    def next(self, working: list[str], now: float, until: float) -> TaskToDo | list[str] | float:
        """A task; or what of `working` is not wanted; or until when to wait for news."""
        task = self.attachment.take(now)
        if task is not None:
            return task
        unwanted = self.attachment.unwanted(working)
        if unwanted:
            return unwanted
        deadline = self.attachment.deadline()
        return until if deadline is None else min(until, deadline)


def _end(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
