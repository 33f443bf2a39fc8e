"""The state machine of a task. Connectors translate every protocol's requests into tasks, and tasks into that
protocol's answers.

A task is answered exactly once. It may be delivered several times, but it is started at most once: a runner
must take the step from `accepted` to `running` before its work counts. If a started task is lost, it is
answered with an error; if a task that was not started is lost, it is delivered again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from bridge.tasks.answer import Answer, cancelled, failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import (
    Accept,
    AdvanceQueue,
    AgentUnavailable,
    Cancel,
    DroppedMessage,
    Due,
    Effect,
    Enqueue,
    Error,
    Message,
    Progress,
    Renew,
    Resubmit,
    Result,
    RunnerLost,
    SendProgress,
    Start,
    Tick,
    Unreachable,
)
from bridge.tasks.request import TaskKey, TaskRequest


class State(StrEnum):
    RECEIVED = "received"
    """The route is not decided yet."""
    QUEUED = "queued"
    """The agent is busy, and the task is in its queue."""
    ACCEPTED = "accepted"
    """The task is being delivered, or was delivered and is not started yet."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """The agent reported a failure, or the task ended with one of the error codes."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL: Final = frozenset({State.DONE, State.FAILED, State.CANCELLED, State.TIMED_OUT})
LIVE: Final = frozenset(State) - FINAL
RUNNER_LOST_REASON: Final = "The process that ran the task has ended. Whether the work was done is not known."


@dataclass(frozen=True, slots=True)
class Task:
    """`elsewhere`: the task runs on another node. `version` grows with every step; `asked` counts how often
    the task was requested."""

    request: TaskRequest
    received_at: int
    deadline: int
    elsewhere: bool = False
    state: State = State.RECEIVED
    version: int = 1
    asked: int = 1
    started_at: int | None = None
    finished_at: int | None = None
    runner: str | None = None
    lease_until: int | None = None
    answer: Answer | None = None
    due: frozenset[Due] = frozenset()
    id: int = 0
    """The id in the database."""

    @property
    def key(self) -> TaskKey:
        return self.request.key

    def replace(self, **changes: Any) -> "Task":
        """A copy with some fields changed. Faster than `dataclasses.replace`, which inspects every field."""
        values = dict(zip(_FIELDS, _values_of(self), strict=True))
        values.update(changes)
        return Task(**values)

    def next_deadline(self) -> int | None:
        """When the task needs the next `Tick`; None if it has ended."""
        if self.finished_at is not None:
            return None
        return self.deadline if self.lease_until is None else min(self.deadline, self.lease_until)


_FIELDS: Final = tuple(field.name for field in fields(Task))
_values_of: Final = attrgetter(*_FIELDS)


class Step(NamedTuple):
    """The task after a message, and the effects to start once it is stored. Effects in `task.due` are not
    repeated here."""

    task: Task
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Transition:
    """The action for a message in a state, and the states to which it may lead."""

    action: Callable[[Task, Any, int], Step]
    to: frozenset[State]


def receive(task: Task, message: Message, now_ms: int) -> Step:
    """Apply a message to a task. `now_ms` is milliseconds since 1970."""
    transition = TRANSITIONS[task.state, type(message)]
    step = transition.action(task, message, now_ms)
    assert step.task.state in transition.to, f"{type(message).__name__} led to {step.task.state}"
    return step


def _next(task: Task, **changes: Any) -> Task:
    """The task after a step that changes it."""
    return task.replace(version=task.version + 1, **changes)


# ---- delivery and work -------------------------------------------------------------------------------

_SHOW: Final = frozenset({Due.SHOW})
_DELIVER_AND_SHOW: Final = frozenset({Due.DELIVER, Due.SHOW})
_ANSWER_AND_SHOW: Final = frozenset({Due.ANSWER, Due.SHOW})


def _accept(task: Task, message: Accept, now_ms: int) -> Step:
    return Step(_next(task, state=State.ACCEPTED, due=_DELIVER_AND_SHOW))


def _enqueue(task: Task, message: Enqueue, now_ms: int) -> Step:
    return Step(_next(task, state=State.QUEUED, due=_SHOW))


def _start(task: Task, message: Start, now_ms: int) -> Step:
    return Step(
        _next(
            task,
            state=State.RUNNING,
            started_at=now_ms,
            runner=message.runner,
            lease_until=message.lease_until,
            due=_SHOW,
        )
    )


def _restart(task: Task, message: Start, now_ms: int) -> Step:
    """The runner that has the task may repeat its request: the response to the first one may have been
    lost."""
    if message.runner == task.runner:
        return Step(task)
    return Step(task, (DroppedMessage("start", "another runner has it"),))


def _renew(task: Task, message: Renew, now_ms: int) -> Step:
    if message.runner != task.runner or task.lease_until is None:
        return Step(task, (DroppedMessage("renewal", "this runner does not have it"),))
    if message.lease_until <= task.lease_until:
        return Step(task)
    return Step(_next(task, lease_until=message.lease_until))


def _progress(task: Task, message: Progress, now_ms: int) -> Step:
    return Step(task, (SendProgress(message.content),))


def _progress_of_accepted(task: Task, message: Progress, now_ms: int) -> Step:
    """Nodes do not report the start of a task to each other: the first progress message implies it."""
    if not task.elsewhere:
        return Step(task, (DroppedMessage("progress", "the task has not been started"),))
    return Step(_start(task, Start(task.request.to_address.node_id), now_ms).task, (SendProgress(message.content),))


def _redeliver(task: Task, message: RunnerLost, now_ms: int) -> Step:
    """The task was not started, so it is delivered again."""
    return Step(task if Due.DELIVER in task.due else _next(task, due=task.due | {Due.DELIVER}))


def _lost(task: Task, message: RunnerLost | Tick, now_ms: int) -> Step:
    """The task was started, and is not started a second time. A task on another node has its runner there."""
    if task.elsewhere:
        return Step(task)
    return _interrupted(task, RUNNER_LOST_REASON, now_ms)


def _ask_again(task: Task, message: Resubmit, now_ms: int) -> Step:
    request = task.request.resubmitted(message.origin)
    due = task.due | {Due.ANSWER} if task.state.is_final else task.due
    return Step(_next(task, request=request, asked=task.asked + 1, due=due))


# ---- final states ------------------------------------------------------------------------------------


def _end(task: Task, state: State, answer: Answer, now_ms: int, *also: Due) -> Step:
    """`also` is due in addition if the task was delivered: the agent may still work on it."""
    was_delivered = task.state in _DELIVERED
    ended = _next(
        task,
        state=state,
        finished_at=now_ms,
        lease_until=None,
        answer=answer,
        due=_ANSWER_AND_SHOW.union(also) if also and was_delivered else _ANSWER_AND_SHOW,
    )
    return Step(ended, (AdvanceQueue(),) if was_delivered and not task.elsewhere else ())


def _result(task: Task, message: Result, now_ms: int) -> Step:
    return _end(task, _state_after(message.answer), message.answer, now_ms)


def _result_of_accepted(task: Task, message: Result, now_ms: int) -> Step:
    """Nodes do not report the start of a task to each other: the answer implies it."""
    if not task.elsewhere:
        return Step(task, (DroppedMessage("result", "the task has not been started"),))
    return _result(task, message, now_ms)


def _state_after(answer: Answer) -> State:
    if answer.error_code is ErrorCode.TIMEOUT:
        return State.TIMED_OUT
    return State.DONE if answer.success else State.FAILED


def _error(task: Task, message: Error, now_ms: int) -> Step:
    state = State.TIMED_OUT if message.error.code is ErrorCode.TIMEOUT else State.FAILED
    return _end(task, state, failure(message.error), now_ms)


def _cancel(task: Task, message: Cancel, now_ms: int) -> Step:
    return _end(task, State.CANCELLED, cancelled(message.by, message.reason), now_ms, Due.CANCEL)


def _tick(task: Task, message: Tick, now_ms: int) -> Step:
    """ "`timeout_secs` counted from receipt, … then `TIMEOUT`"."""
    if now_ms >= task.deadline:
        seconds = (task.deadline - task.received_at) / 1000
        error = TaskError(ErrorCode.TIMEOUT, f"The task was not done within {seconds:g} s.")
        return _end(task, State.TIMED_OUT, failure(error), now_ms, Due.CANCEL)
    if task.lease_until is not None and now_ms >= task.lease_until:
        return _lost(task, message, now_ms)
    return Step(task)


def _unreachable(task: Task, message: Unreachable, now_ms: int) -> Step:
    error = TaskError(ErrorCode.NODE_UNREACHABLE, message.reason)
    return _end(task, State.FAILED, failure(error), now_ms)


def _unreachable_while_running(task: Task, message: Unreachable, now_ms: int) -> Step:
    return _interrupted(task, message.reason, now_ms)


def _agent_unavailable(task: Task, message: AgentUnavailable, now_ms: int) -> Step:
    """ "routes end, waiting tasks fail". The agent may reconnect and still work on the task, so it is told to
    stop."""
    return _end(task, State.FAILED, failure(message.error), now_ms, Due.CANCEL)


def _agent_unavailable_while_running(task: Task, message: AgentUnavailable, now_ms: int) -> Step:
    return _interrupted(task, f"{message.error.reason} Whether the work was done is not known.", now_ms)


def _interrupted(task: Task, reason: str, now_ms: int) -> Step:
    """A started task whose agent or runner was lost ends like this, whatever the cause."""
    error = TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
    return _end(task, State.FAILED, failure(error), now_ms, Due.CANCEL)


# ---- messages that are dropped -----------------------------------------------------------------------


def _late(task: Task, message: Message, now_ms: int) -> Step:
    """ "A late answer is audited and dropped"."""
    return Step(task, (DroppedMessage(type(message).__name__.lower(), f"the task is {task.state} already"),))


def _early(task: Task, message: Message, now_ms: int) -> Step:
    return Step(task, (DroppedMessage(type(message).__name__.lower(), "the task has not been given to the agent"),))


def _stay(task: Task, message: Message, now_ms: int) -> Step:
    return Step(task)


# ---- transitions -------------------------------------------------------------------------------------

_DELIVERED: Final = frozenset({State.ACCEPTED, State.RUNNING})


def _to(action: Callable[[Task, Any, int], Step], *states: State) -> Transition:
    return Transition(action, frozenset(states))


def _ends(state: State) -> dict[tuple[State, type[Message]], Transition]:
    """Transitions that every state has that is not final."""
    return {
        (state, Error): _to(_error, State.FAILED, State.TIMED_OUT),
        (state, Cancel): _to(_cancel, State.CANCELLED),
        (state, Tick): _to(_tick, state, State.TIMED_OUT, *([State.FAILED] if state is State.RUNNING else [])),
        (state, Unreachable): _to(_unreachable, State.FAILED),
        (state, AgentUnavailable): _to(_agent_unavailable, State.FAILED),
        (state, Resubmit): _to(_ask_again, state),
    }


def _final(state: State) -> dict[tuple[State, type[Message]], Transition]:
    late = dict.fromkeys((Start, Renew, Progress, Result, Error), _to(_late, state))
    over = dict.fromkeys((Accept, Enqueue, Cancel, Tick, Unreachable, AgentUnavailable, RunnerLost), _to(_stay, state))
    return {
        (state, kind): transition for kind, transition in {**late, **over, Resubmit: _to(_ask_again, state)}.items()
    }


def _undelivered(state: State) -> dict[tuple[State, type[Message]], Transition]:
    """Transitions of a task that was not delivered."""
    early = dict.fromkeys((Start, Renew, Progress, Result), _to(_early, state))
    return {
        **{(state, kind): transition for kind, transition in early.items()},
        (state, Accept): _to(_accept, State.ACCEPTED),
        (state, RunnerLost): _to(_stay, state),
    }


# The table is total: every message has a transition in every state.
TRANSITIONS: Final[Mapping[tuple[State, type[Message]], Transition]] = {
    **_undelivered(State.RECEIVED),
    **_ends(State.RECEIVED),
    (State.RECEIVED, Enqueue): _to(_enqueue, State.QUEUED),
    **_undelivered(State.QUEUED),
    **_ends(State.QUEUED),
    (State.QUEUED, Enqueue): _to(_stay, State.QUEUED),
    **_ends(State.ACCEPTED),
    (State.ACCEPTED, Accept): _to(_stay, State.ACCEPTED),
    (State.ACCEPTED, Enqueue): _to(_stay, State.ACCEPTED),
    (State.ACCEPTED, Start): _to(_start, State.RUNNING),
    (State.ACCEPTED, Renew): _to(_early, State.ACCEPTED),
    (State.ACCEPTED, Progress): _to(_progress_of_accepted, State.ACCEPTED, State.RUNNING),
    (State.ACCEPTED, Result): _to(_result_of_accepted, State.ACCEPTED, *FINAL - {State.CANCELLED}),
    (State.ACCEPTED, RunnerLost): _to(_redeliver, State.ACCEPTED),
    **_ends(State.RUNNING),
    (State.RUNNING, Unreachable): _to(_unreachable_while_running, State.FAILED),
    (State.RUNNING, AgentUnavailable): _to(_agent_unavailable_while_running, State.FAILED),
    (State.RUNNING, Accept): _to(_stay, State.RUNNING),
    (State.RUNNING, Enqueue): _to(_stay, State.RUNNING),
    (State.RUNNING, Start): _to(_restart, State.RUNNING),
    (State.RUNNING, Renew): _to(_renew, State.RUNNING),
    (State.RUNNING, Progress): _to(_progress, State.RUNNING),
    (State.RUNNING, Result): _to(_result, State.RUNNING, *FINAL - {State.CANCELLED}),
    (State.RUNNING, RunnerLost): _to(_lost, State.RUNNING, State.FAILED),
    **_final(State.DONE),
    **_final(State.FAILED),
    **_final(State.CANCELLED),
    **_final(State.TIMED_OUT),
}
