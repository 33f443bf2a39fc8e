"""What a program that has attached itself as an agent has been given, and what waits for it.

A machine. A task waits; it is offered to whoever asks next; then it is begun, which only the desk can allow,
and after that it is given to nobody else. One that was offered and is not begun in time is offered again, as
another attempt: what is said about an earlier one does not count.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.agents.work import TaskToDo

MOST_REMEMBERED: Final = 1_000
"""Tasks that the program has answered, for the case that it says so again."""


class Phase(StrEnum):
    WAITING = "waiting"
    OFFERED = "offered"
    BEGUN = "begun"
    OVER = "over"
    """It was answered by this very program."""


@dataclass(slots=True)
class _Held:
    task: TaskToDo
    phase: Phase = Phase.WAITING
    until: float = 0.0
    """Until when one that is offered may be begun."""


class Attachment:
    """Of one session of a program. Times are seconds of a clock that never runs backwards."""

    def __init__(self, parallel: int, offer_lasts: float) -> None:
        self.parallel = parallel
        self._offer_lasts = offer_lasts
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._over: OrderedDict[str, int] = OrderedDict()

    # -- what the desk says --

    def deliver(self, task: TaskToDo) -> bool:
        """Whether it is new here."""
        if task.work_id in self._held or task.work_id in self._over:
            return False
        self._held[task.work_id] = _Held(task)
        return True

    def resume(self, task: TaskToDo) -> None:
        """The program had begun it before it attached itself here."""
        self._held[task.work_id] = _Held(task, Phase.BEGUN)

    def withdraw(self, work_id: str) -> bool:
        """Nobody wants it any more. Whether it was here."""
        return self._held.pop(work_id, None) is not None

    # -- what the program says --

    def take(self, now: float) -> TaskToDo | None:
        """The next one, if the program has room for it."""
        self._expire(now)
        if sum(held.phase is not Phase.WAITING for held in self._held.values()) >= self.parallel:
            return None
        for held in self._held.values():
            if held.phase is Phase.WAITING:
                held.phase = Phase.OFFERED
                held.until = now + self._offer_lasts
                return held.task
        return None

    def give_back(self, work_id: str) -> None:
        """What was offered has not arrived."""
        held = self._held.get(work_id)
        if held is not None and held.phase is Phase.OFFERED:
            self._offer_again(held)

    def phase(self, work_id: str, attempt: int, now: float) -> Phase | None:
        """None when the program has nothing to say about it."""
        self._expire(now)
        if self._over.get(work_id) == attempt:
            return Phase.OVER
        held = self._held.get(work_id)
        if held is None or held.task.attempt != attempt or held.phase is Phase.WAITING:
            return None
        return held.phase

    def begin(self, work_id: str) -> None:
        """The desk has allowed it. (It may have been withdrawn meanwhile.)"""
        held = self._held.get(work_id)
        if held is not None:
            held.phase = Phase.BEGUN

    def finish(self, work_id: str, attempt: int) -> None:
        self._held.pop(work_id, None)
        self._over[work_id] = attempt
        if len(self._over) > MOST_REMEMBERED:
            self._over.popitem(last=False)

    # -- looking --

    def deadline(self) -> float | None:
        """When something that was offered will be offered again."""
        return min((held.until for held in self._held.values() if held.phase is Phase.OFFERED), default=None)

    def has_waiting(self) -> bool:
        """Whether there is something that is offered to nobody yet."""
        return any(held.phase is Phase.WAITING for held in self._held.values())

    def begun(self) -> list[str]:
        return [work_id for work_id, held in self._held.items() if held.phase is Phase.BEGUN]

    def not_begun(self) -> list[TaskToDo]:
        """As they are handed to the next session."""
        return [held.task for held in self._held.values() if held.phase is not Phase.BEGUN]

    def unwanted(self, working: list[str]) -> list[str]:
        """Of what the program works on, what it may stop."""
        return [work_id for work_id in working if work_id not in self._held]

    def _expire(self, now: float) -> None:
        for held in self._held.values():
            if held.phase is Phase.OFFERED and now >= held.until:
                self._offer_again(held)

    def _offer_again(self, held: _Held) -> None:
        held.phase = Phase.WAITING
        held.task = replace(held.task, attempt=held.task.attempt + 1)
