"""Whether an agent gets a task now."""

import pytest

from bridge.agents.agent import AgentStatus
from bridge.tasks.errors import ErrorCode
from bridge.tasks.messages import Accept, Enqueue, Error
from bridge.tasks.queue_settings import MAX_QUEUE_LENGTH, Admission, AgentSettings, Load, admit, has_room

IDLE, BUSY = AgentStatus.IDLE, AgentStatus.BUSY


def refused(admission: Admission) -> Error:
    assert isinstance(admission, Error)
    return admission


def test_by_default_an_agent_has_one_task_at_a_time() -> None:
    """And refuses others with `AGENT_BUSY` and its current task, as in the specification's example."""
    assert admit(Load(), AgentSettings(), IDLE) == Accept()
    error = refused(admit(Load(active=1, current_task="task-123"), AgentSettings(), BUSY)).error
    assert error.code is ErrorCode.AGENT_BUSY
    assert error.metadata == {"current_task": "task-123"}


def test_a_queue_is_bounded() -> None:
    """A task beyond the bound is refused with an error, and queued tasks stay."""
    settings = AgentSettings(queue_length=2)
    assert admit(Load(active=1), settings, BUSY) == Enqueue()
    assert admit(Load(active=1, queued=1), settings, BUSY) == Enqueue()
    assert "full with 2 tasks" in refused(admit(Load(active=1, queued=2), settings, BUSY)).error.reason


def test_no_setting_makes_a_queue_unbounded() -> None:
    """Every queue has a limit."""
    settings = AgentSettings(queue_length=10**9)
    assert isinstance(admit(Load(active=1, queued=MAX_QUEUE_LENGTH), settings, BUSY), Error)


def test_queued_tasks_go_first() -> None:
    """The agent has room, but it is for the first queued task."""
    assert admit(Load(active=0, queued=1), AgentSettings(queue_length=2), IDLE) == Enqueue()
    assert isinstance(admit(Load(active=0, queued=1), AgentSettings(), IDLE), Error)


@pytest.mark.parametrize("active", [0, 5, 10_000])
def test_an_agent_without_a_limit_is_never_busy(active: int) -> None:
    """It gets every task at once."""
    settings = AgentSettings(parallel=None)
    assert admit(Load(active=active), settings, BUSY) == Accept()
    assert has_room(Load(active=active), settings)


def test_an_agent_with_several_slots() -> None:
    """The first queued task may start as soon as one of them ends."""
    settings = AgentSettings(parallel=3, queue_length=1)
    assert admit(Load(active=2), settings, BUSY) == Accept()
    assert admit(Load(active=3), settings, BUSY) == Enqueue()
    assert [has_room(Load(active=active), settings) for active in (2, 3, 4)] == [True, False, False]


def test_a_failed_agent_gets_no_tasks() -> None:
    """Until it has recovered; its queue would only grow."""
    error = refused(admit(Load(), AgentSettings(parallel=None, queue_length=5), AgentStatus.ERROR)).error
    assert error.code is ErrorCode.AGENT_BUSY
