"""One session of an attached program: its tasks, and the calls that wait for them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.attached.attachment import Attachment
from bridge.agents.work import TaskAssignment, assignment_of
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.task import Task

RUNNER_PREFIX: Final = "session "
"""The prefix of the runner names of sessions. A session may outlive the process, whose number is therefore
not part of the name."""


@dataclass(frozen=True, slots=True)
class Program:
    """The data with which a program registers."""

    session: str
    token_id: str
    runtime: str
    capabilities: tuple[str, ...]
    parallel: int = 1
    queue: int = 100


class AttachedSession:
    """`announced_at` is when the agent's registration was last refreshed, `renewed_at` when the leases of its
    tasks were; both in seconds of a monotonic clock."""

    def __init__(self, address: AgentAddress, program: Program, offer_timeout: float) -> None:
        self.address = address
        self.program = program
        self.attachment = Attachment(program.parallel, offer_timeout)
        self.announced_at = 0.0
        self.renewed_at = 0.0
        self.has_ended = False
        self._tasks: dict[str, Task] = {}
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def runner(self) -> str:
        return f"{RUNNER_PREFIX}{self.program.session}"

    @property
    def settings(self) -> AgentSettings:
        return AgentSettings(self.program.parallel, self.program.queue)

    # -- waiting --

    async def wait_for_change(self, seconds: float) -> None:
        """Return when something changes, or after so many `seconds`. Call `next` right before: earlier
        changes do not count."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.add(waiter)
        timer = loop.call_later(seconds, _release, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def wake(self) -> None:
        for waiter in self._waiters:
            _release(waiter)

    def end(self) -> None:
        """End the session: another one has replaced it, or the agent is offline."""
        self.has_ended = True
        self.wake()

    # -- tasks --

    def task(self, work_id: str) -> Task | None:
        return self._tasks.get(work_id)

    def tasks(self, work_ids: Iterable[str]) -> list[Task]:
        return [self._tasks[work_id] for work_id in work_ids if work_id in self._tasks]

    def deliver(self, task: Task) -> None:
        if self.attachment.deliver(assignment_of(task)):
            self._tasks[str(task.id)] = task
            self.wake()

    def resume(self, task: Task, attempt: int) -> None:
        self._tasks[str(task.id)] = task
        self.attachment.resume(assignment_of(task, attempt))

    def withdraw(self, work_id: str) -> bool:
        self._tasks.pop(work_id, None)
        was_here = self.attachment.withdraw(work_id)
        if was_here:
            self.wake()
        return was_here

    def withdraw_offer(self, work_id: str) -> None:
        """Return a task whose offer did not reach the program."""
        self.attachment.withdraw_offer(work_id)
        self.wake()

    def finish(self, work_id: str, attempt: int) -> None:
        self._tasks.pop(work_id, None)
        self.attachment.finish(work_id, attempt)
        if self.attachment.has_pending():
            self.wake()  # the program has room for the next task

    def begun(self) -> list[Task]:
        return self.tasks(self.attachment.begun())

    def not_begun(self) -> list[Task]:
        return self.tasks(task.work_id for task in self.attachment.not_begun())

    def next(self, working: list[str], now: float, until: float) -> TaskAssignment | list[str] | float:
        """The next task; or those of `working` that were cancelled; or the time until which to wait for a
        change."""
        task = self.attachment.take(now)
        if task is not None:
            return task
        cancelled = self.attachment.cancelled_of(working)
        if cancelled:
            return cancelled
        deadline = self.attachment.deadline()
        return until if deadline is None else min(until, deadline)


def _release(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
