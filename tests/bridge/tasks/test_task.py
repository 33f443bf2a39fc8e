"""The state machine of a task: every state × every message, each error, and invariants of random
sequences."""

import random
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest

from bridge.agents.address import AgentAddress
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import (
    Accept,
    AdvanceQueue,
    AgentUnavailable,
    Cancel,
    DroppedMessage,
    Due,
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
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.task import FINAL, LIVE, TRANSITIONS, State, Step, Task, receive

NOW = 10**12
DEADLINE = NOW + 300_000
REQUEST = TaskRequest(
    TaskKey("living", "req-1"),
    "task-1",
    AgentAddress("coordinator", "living"),
    AgentAddress("worker", "kitchen"),
    "Implement a function",
    Origin("cis", {"event_id": "$1"}),
)
GOOD = Answer(True, "done", 0)
BAD = Answer(False, "exit 1", 1)
GONE = TaskError(ErrorCode.AGENT_NOT_FOUND, "It has gone.")

MESSAGES: dict[type[Any], Message] = {
    type(one): one
    for one in (
        Accept(),
        Enqueue(),
        Start("desk-1"),
        Renew("desk-1", NOW + 9),
        Progress({"percent": 50}),
        Result(GOOD),
        Error(TaskError(ErrorCode.AGENT_BUSY, "It is busy.")),
        Cancel("alice"),
        Tick(),
        Unreachable("It does not answer."),
        AgentUnavailable(GONE),
        RunnerLost(),
        Resubmit(Origin("cis", {"event_id": "$2"})),
    )
}
BEGINNING = Task(REQUEST, NOW, DEADLINE)


def then(task: Task, *messages: Message, now_ms: int = NOW) -> Task:
    for message in messages:
        task = receive(task, message, now_ms).task
    return task


def in_state(state: State, *, elsewhere: bool = False) -> Task:
    beginning = replace(BEGINNING, elsewhere=elsewhere)
    running = then(beginning, Accept(), Start("desk-1"))
    task = {
        State.RECEIVED: beginning,
        State.QUEUED: then(beginning, Enqueue()),
        State.ACCEPTED: then(beginning, Accept()),
        State.RUNNING: running,
        State.DONE: then(running, Result(GOOD)),
        State.FAILED: then(running, Result(BAD)),
        State.CANCELLED: then(running, Cancel("alice")),
        State.TIMED_OUT: then(running, Tick(), now_ms=DEADLINE),
    }[state]
    assert task.state is state
    return task


ENDS = {Error: State.FAILED, Cancel: State.CANCELLED, Unreachable: State.FAILED, AgentUnavailable: State.FAILED}
# The target of each message that leaves the state, before the deadline.
STEPS: dict[tuple[State, type[Any]], State] = {
    (State.RECEIVED, Accept): State.ACCEPTED,
    (State.RECEIVED, Enqueue): State.QUEUED,
    (State.QUEUED, Accept): State.ACCEPTED,
    (State.ACCEPTED, Start): State.RUNNING,
    (State.RUNNING, Result): State.DONE,
    (State.RUNNING, RunnerLost): State.FAILED,
    **{(state, kind): end for state in LIVE for kind, end in ENDS.items()},
}
STEPS_ELSEWHERE = {step: end for step, end in STEPS.items() if step != (State.RUNNING, RunnerLost)} | {
    (State.ACCEPTED, Progress): State.RUNNING,
    (State.ACCEPTED, Result): State.DONE,
}


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("state", "kind"), list(product(State, get_args(Message))))
def test_every_state_and_every_message(state: State, kind: type[Any], elsewhere: bool) -> None:
    """The table is total, because peers and agents may send anything at any time, and leads only where it
    says."""
    task = in_state(state, elsewhere=elsewhere)
    step = receive(task, MESSAGES[kind], NOW + 1)
    steps = STEPS_ELSEWHERE if elsewhere else STEPS
    assert step.task.state is steps.get((state, kind), state)
    assert step.task.state in TRANSITIONS[state, kind].to
    assert step.task.version == task.version + (step.task != task)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", get_args(Message))
def test_a_step_has_the_next_version_or_the_same_task(state: State, kind: type[Any]) -> None:
    """A message without effect returns the same object, so that callers need not compare."""
    task = in_state(state)
    after = receive(task, MESSAGES[kind], NOW + 1).task
    assert after is task or after.version == task.version + 1
    assert after is task or replace(after, version=task.version) != task


def test_replace_keeps_the_other_fields() -> None:
    """As `dataclasses.replace` does."""
    task = in_state(State.RUNNING)
    assert task.replace(asked=7, runner=None) == replace(task, asked=7, runner=None)
    assert task.replace() == task


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_final_state_is_answered(state: State) -> None:
    """The requester gets one answer, and people see the state."""
    for kind, end in ENDS.items():
        ended = then(in_state(state), MESSAGES[kind])
        assert ended.state is end
        assert {Due.ANSWER, Due.SHOW} <= ended.due
        assert Due.DELIVER not in ended.due
        assert ended.answer is not None
        assert ended.finished_at == NOW


# ---- the five codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", list(ErrorCode))
@pytest.mark.parametrize("state", sorted(LIVE))
def test_each_code_is_reached_by_an_error(state: State, code: ErrorCode) -> None:
    """Reported by an agent or its node, or decided here."""
    ended = then(in_state(state), Error(TaskError(code, "So it is.")))
    assert ended.state is (State.TIMED_OUT if code is ErrorCode.TIMEOUT else State.FAILED)
    assert ended.answer is not None
    assert (ended.answer.error_code, ended.answer.metadata) == (code, {"error_code": code.value})


@pytest.mark.parametrize(
    ("message", "now_ms", "code"),
    [
        (Tick(), DEADLINE, ErrorCode.TIMEOUT),
        (Unreachable("It does not answer."), NOW, ErrorCode.NODE_UNREACHABLE),
        (AgentUnavailable(TaskError(ErrorCode.NODE_UNREACHABLE, "Silent.")), NOW, ErrorCode.NODE_UNREACHABLE),
    ],
)
@pytest.mark.parametrize("state", sorted(LIVE))
def test_each_external_event_has_its_error_code(state: State, message: Message, now_ms: int, code: ErrorCode) -> None:
    """In every state that is not final."""
    ended = then(in_state(state), message, now_ms=now_ms)
    assert ended.answer is not None
    assert ended.answer.error_code is code
    assert not ended.answer.success


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_task_whose_agent_is_lost_has_one_outcome(state: State, elsewhere: bool) -> None:
    """If it had started it is interrupted, whatever the cause; otherwise it fails with the error of its
    route."""
    for message in (AgentUnavailable(GONE), Unreachable("It does not answer."), RunnerLost()):
        if isinstance(message, RunnerLost) and (elsewhere or state is not State.RUNNING):
            continue
        ended = then(in_state(state, elsewhere=elsewhere), message)
        assert ended.answer is not None
        is_interrupted = state is State.RUNNING
        assert ended.answer.metadata.get("interrupted", False) is is_interrupted
        if is_interrupted:
            assert ended.answer.error_code is ErrorCode.NODE_UNREACHABLE
            assert Due.CANCEL in ended.due, "it may come back and still be at it"
        elif isinstance(message, AgentUnavailable):
            assert ended.answer.error_code is ErrorCode.AGENT_NOT_FOUND


def test_a_failure_that_the_agent_reports_has_no_code() -> None:
    """ "an ordinary failure of the tool has exit code 1 and no code"."""
    failed = then(in_state(State.RUNNING), Result(BAD))
    assert (failed.state, failed.answer) == (State.FAILED, BAD)


def test_a_timeout_of_another_node_is_a_timeout() -> None:
    """Its clock was slightly ahead."""
    late = Answer(False, "too slow", -1, {"error_code": "TIMEOUT"}, ErrorCode.TIMEOUT)
    assert then(in_state(State.ACCEPTED, elsewhere=True), Result(late)).state is State.TIMED_OUT


# ---- time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_task_ends_at_its_deadline(state: State) -> None:
    """`timeout_secs` counted from receipt."""
    task = in_state(state)
    assert task.next_deadline() == DEADLINE
    assert receive(task, Tick(), DEADLINE - 1) == Step(task)
    ended = then(task, Tick(), now_ms=DEADLINE)
    assert ended.state is State.TIMED_OUT
    assert ended.next_deadline() is None
    assert ended.answer is not None
    assert ended.answer.output == "The task was not done within 300 s."


def test_a_runner_that_does_not_renew_its_lease_is_lost() -> None:
    """The task had started, so it is answered and not started again."""
    task = then(in_state(State.ACCEPTED), Start("agent-7", NOW + 60_000))
    assert task.next_deadline() == NOW + 60_000
    task = then(task, Renew("agent-7", NOW + 90_000), Renew("agent-7", NOW + 80_000))
    assert task.next_deadline() == NOW + 90_000
    assert receive(task, Tick(), NOW + 89_999) == Step(task)
    lost = then(task, Tick(), now_ms=NOW + 90_000)
    assert (lost.state, lost.lease_until) == (State.FAILED, None)
    assert lost.answer is not None
    assert lost.answer.error_code is ErrorCode.NODE_UNREACHABLE
    assert lost.answer.metadata["interrupted"] is True
    assert Due.CANCEL in lost.due


@pytest.mark.parametrize("message", [Renew("other", NOW + 9), Renew("desk-1", NOW + 9)])
def test_only_the_runner_renews_the_lease(message: Renew) -> None:
    """A renewal by another runner is dropped."""
    task = in_state(State.RUNNING)
    step = receive(task, message, NOW)
    assert step.task == task
    assert isinstance(step.effects[0], DroppedMessage)


def test_a_lease_does_not_extend_the_deadline() -> None:
    """The earlier of the two is next."""
    task = then(in_state(State.ACCEPTED), Start("agent-7", DEADLINE + 1))
    assert task.next_deadline() == DEADLINE
    assert then(task, Tick(), now_ms=DEADLINE).state is State.TIMED_OUT


# ---- starting once -----------------------------------------------------------------------------------


def test_a_task_that_was_not_started_is_delivered_again() -> None:
    """The process that delivered it has ended."""
    task = replace(in_state(State.ACCEPTED), due=frozenset())
    again = then(task, RunnerLost())
    assert (again.state, again.due) == (State.ACCEPTED, {Due.DELIVER})


def test_a_started_task_is_not_started_again() -> None:
    """Whether it was done is not known."""
    lost = then(in_state(State.RUNNING), RunnerLost())
    assert lost.state is State.FAILED
    assert Due.DELIVER not in lost.due


def test_a_task_on_another_node_does_not_depend_on_this_process() -> None:
    """The request is sent again if it may not have arrived; the other node recognises its id."""
    running = in_state(State.RUNNING, elsewhere=True)
    assert receive(running, RunnerLost(), NOW) == Step(running)
    accepted = replace(in_state(State.ACCEPTED, elsewhere=True), due=frozenset())
    assert then(accepted, RunnerLost()).due == {Due.DELIVER}


def test_one_runner_starts_a_task() -> None:
    """A second runner is refused; the first may repeat its request."""
    task = in_state(State.RUNNING)
    assert receive(task, Start("desk-1"), NOW) == Step(task)
    refused = receive(task, Start("desk-2"), NOW)
    assert refused == Step(task, (DroppedMessage("start", "another runner has it"),))


def test_a_result_without_a_start_is_dropped() -> None:
    """An agent of this node must have started the task."""
    for state in (State.RECEIVED, State.QUEUED, State.ACCEPTED):
        for message in (Result(GOOD), Progress({})):
            [dropped] = receive(in_state(state), message, NOW).effects
            assert isinstance(dropped, DroppedMessage)


def test_no_sequence_starts_or_answers_a_task_twice() -> None:
    """Random messages: one start, one answer, and after the end only repeated requests change the task."""
    draw = random.Random(4)
    for _ in range(2_000):
        task = replace(BEGINNING, elsewhere=draw.random() < 0.3)
        beginnings = answers = 0
        now_ms = NOW
        for _ in range(25):
            message = draw.choice(list(MESSAGES.values()))
            if isinstance(message, Start):
                message = Start(f"desk-{draw.randrange(3)}")
            now_ms += draw.choice([0, 10, 10_000])
            after = receive(task, message, now_ms).task
            beginnings += task.runner is None and after.runner is not None
            assert task.runner in {None, after.runner}
            if after.answer != task.answer:
                answers += 1
                assert task.answer is None
            if task.state in FINAL:
                assert after.state is task.state
                assert after.answer == task.answer
            assert (after.finished_at is None) == (after.state in LIVE)
            assert (after.state in FINAL) == (after.answer is not None)
            task = after
        assert beginnings <= 1
        assert answers <= 1


# ---- effects -----------------------------------------------------------------------------------------


def test_an_accepted_task_is_delivered() -> None:
    """At once, or after it was queued."""
    for state in (State.RECEIVED, State.QUEUED):
        assert then(in_state(state), Accept()).due == {Due.DELIVER, Due.SHOW}
    assert then(BEGINNING, Enqueue()).due == {Due.SHOW}


def test_a_started_task_was_delivered() -> None:
    """Even if the acknowledgement of the delivery was lost."""
    assert in_state(State.RUNNING).due == {Due.SHOW}


@pytest.mark.parametrize("state", sorted(LIVE))
@pytest.mark.parametrize("message", [Cancel("alice", "wrong one"), Tick()])
def test_an_agent_that_has_the_task_is_told_to_stop(state: State, message: Message) -> None:
    """An agent that does not have it is not."""
    ended = then(in_state(state), message, now_ms=DEADLINE)
    assert (Due.CANCEL in ended.due) == (state in {State.ACCEPTED, State.RUNNING})


def test_progress_is_sent_to_the_requester() -> None:
    """It does not change the task."""
    task = in_state(State.RUNNING)
    assert receive(task, Progress({"percent": 50}), NOW) == Step(task, (SendProgress({"percent": 50}),))


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("state", sorted(LIVE))
def test_the_end_of_a_task_advances_the_agents_queue(state: State, elsewhere: bool) -> None:
    """Other nodes have their own queues."""
    step = receive(in_state(state, elsewhere=elsewhere), Cancel("alice"), NOW)
    has_it = state in {State.ACCEPTED, State.RUNNING} and not elsewhere
    assert step.effects == ((AdvanceQueue(),) if has_it else ())


@pytest.mark.parametrize("state", sorted(FINAL))
@pytest.mark.parametrize("kind", [Start, Renew, Progress, Result, Error])
def test_late_messages_are_dropped_and_audited(state: State, kind: type[Any]) -> None:
    """ "A late answer is audited and dropped"."""
    task = in_state(state)
    step = receive(task, MESSAGES[kind], NOW)
    assert step.task == task
    [dropped] = step.effects
    assert dropped == DroppedMessage(kind.__name__.lower(), f"the task is {state} already")


@pytest.mark.parametrize("state", list(State))
def test_a_repeated_request_is_answered_again(state: State) -> None:
    """ "a repeated request id gets the stored answer", at its new origin."""
    task = replace(in_state(state), due=frozenset())
    again = then(task, Resubmit(Origin("cis", {"event_id": "$2"})))
    assert again.due == ({Due.ANSWER} if state in FINAL else frozenset())
    assert again.asked == task.asked + 1
    assert again.request.origin.reference == {"event_id": "$2"}
    assert again.answer == task.answer
