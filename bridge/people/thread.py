"""A task as people see it: which messages belong to it, and how it stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.address import AgentAddress
from bridge.task import LIVE, State
from bridge.task_request import TaskKey


class Sign(StrEnum):
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"

    @property
    def emoji(self) -> str:
        return _EMOJI[self]


_EMOJI: Final[Mapping[Sign, str]] = {Sign.WAITING: "⏳", Sign.DONE: "✅", Sign.FAILED: "❌"}
CANCEL: Final = frozenset({"❌", "❌\ufe0f"})
"""A person's reaction that takes a task back. Some clients add a selector of its form."""
NO_ANSWER: Final = "-"
"""In place of an answer's event, where the room did not take it."""
NOT_BEGUN: Final = frozenset({State.RECEIVED, State.QUEUED, State.ACCEPTED})


def sign_of(state: State) -> Sign:
    if state in LIVE:
        return Sign.WAITING
    return Sign.DONE if state is State.DONE else Sign.FAILED


def needs_sign(before: Sign | None, now: Sign, answer: str | None) -> bool:
    """A message that was never seen waiting, and has its answer, says by that that it is done."""
    if before is None and now is Sign.DONE:
        return answer in {None, NO_ANSWER}
    return before is not now


@dataclass(frozen=True, slots=True)
class Shown:
    """`request` is the message that asks, and `root` what the thread hangs on; they are the same unless it is
    asked for within a thread. `asked_by` is None when no person asked: then the request is a message of ours.
    """

    task: int
    key: TaskKey
    agent: AgentAddress
    room_id: str
    root: str
    request: str
    asked_by: str | None
    is_threaded: bool
    made_at: int
    sign: Sign | None = None
    sign_event: str | None = None
    progress: str | None = None
    answer: str | None = None
    withdrawn_by: str | None = None
