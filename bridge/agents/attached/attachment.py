"""The tasks of one attached program, as a state machine.

A task is pending until it is offered to the program. It is begun once the task service has allowed it, and is
then offered to no other program. An offered task that is not begun in time is offered again as another
attempt; messages about earlier attempts are ignored.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.agents.work import TaskAssignment

MAX_FINISHED: Final = 1_000
"""Tasks that the program has answered and that are remembered, in case it repeats the answer."""


class Phase(StrEnum):
    PENDING = "pending"
    OFFERED = "offered"
    BEGUN = "begun"
    FINISHED = "finished"
    """This program has answered the task."""


@dataclass(slots=True)
class _HeldTask:
    task: TaskAssignment
    phase: Phase = Phase.PENDING
    offered_until: float = 0.0
    """The time until which an offered task may be begun."""


class Attachment:
    """The tasks of one session. Times are seconds of a monotonic clock."""

    def __init__(self, parallel: int, offer_timeout: float) -> None:
        self.parallel = parallel
        self._offer_timeout = offer_timeout
        self._held: OrderedDict[str, _HeldTask] = OrderedDict()
        self._finished: OrderedDict[str, int] = OrderedDict()

    # -- called by the task service --

    def deliver(self, task: TaskAssignment) -> bool:
        """Add a task. False if the session has it already."""
        if task.work_id in self._held or task.work_id in self._finished:
            return False
        self._held[task.work_id] = _HeldTask(task)
        return True

    def resume(self, task: TaskAssignment) -> None:
        """Add a task that the program began before it attached itself here."""
        self._held[task.work_id] = _HeldTask(task, Phase.BEGUN)

    def withdraw(self, work_id: str) -> bool:
        """Remove a task that has ended. False if the session does not have it."""
        return self._held.pop(work_id, None) is not None

    # -- called for the program --

    def take(self, now: float) -> TaskAssignment | None:
        """Offer the next task if the program has room for it."""
        self._expire(now)
        if sum(held.phase is not Phase.PENDING for held in self._held.values()) >= self.parallel:
            return None
        for held in self._held.values():
            if held.phase is Phase.PENDING:
                held.phase = Phase.OFFERED
                held.offered_until = now + self._offer_timeout
                return held.task
        return None

    def withdraw_offer(self, work_id: str) -> None:
        """Return a task whose offer did not reach the program."""
        held = self._held.get(work_id)
        if held is not None and held.phase is Phase.OFFERED:
            self._offer_again(held)

    def phase_of(self, work_id: str, attempt: int, now: float) -> Phase | None:
        """The phase of a task; None if the program does not have it at this attempt."""
        self._expire(now)
        if self._finished.get(work_id) == attempt:
            return Phase.FINISHED
        held = self._held.get(work_id)
        if held is None or held.task.attempt != attempt or held.phase is Phase.PENDING:
            return None
        return held.phase

    def begin(self, work_id: str) -> None:
        """Mark a task as begun, after the task service has allowed it. The task may have been removed
        meanwhile."""
        held = self._held.get(work_id)
        if held is not None:
            held.phase = Phase.BEGUN

    def finish(self, work_id: str, attempt: int) -> None:
        self._held.pop(work_id, None)
        self._finished[work_id] = attempt
        if len(self._finished) > MAX_FINISHED:
            self._finished.popitem(last=False)

    # -- queries --

    def deadline(self) -> float | None:
        """When the next unanswered offer expires."""
        return min((held.offered_until for held in self._held.values() if held.phase is Phase.OFFERED), default=None)

    def has_pending(self) -> bool:
        """Whether there is a task that is not offered."""
        return any(held.phase is Phase.PENDING for held in self._held.values())

    def begun(self) -> list[str]:
        return [work_id for work_id, held in self._held.items() if held.phase is Phase.BEGUN]

    def not_begun(self) -> list[TaskAssignment]:
        """The tasks that go to the next session."""
        return [held.task for held in self._held.values() if held.phase is not Phase.BEGUN]

    def cancelled_of(self, working: list[str]) -> list[str]:
        """Those of the program's tasks that it may stop, because the session no longer has them."""
        return [work_id for work_id in working if work_id not in self._held]

    def _expire(self, now: float) -> None:
        for held in self._held.values():
            if held.phase is Phase.OFFERED and now >= held.offered_until:
                self._offer_again(held)

    def _offer_again(self, held: _HeldTask) -> None:
        held.phase = Phase.PENDING
        held.task = replace(held.task, attempt=held.task.attempt + 1)
