"""Whether an agent takes a task now."""

import pytest

from bridge.agents.agent import AgentStatus
from bridge.tasks.errors import ErrorCode
from bridge.tasks.messages import Accept, Enqueue, Error
from bridge.tasks.queue_settings import MAX_QUEUE_LENGTH, Admission, AgentSettings, Load, admit, has_room

IDLE, BUSY = AgentStatus.IDLE, AgentStatus.BUSY


def refused(admission: Admission) -> Error:
    assert isinstance(admission, Error)
    return admission


def test_an_agent_does_one_thing_at_a_time_unless_it_says_otherwise() -> None:
    """And answers `AGENT_BUSY` with what it is busy with, as the specification's example does."""
    assert admit(Load(), AgentSettings(), IDLE) == Accept()
    error = refused(admit(Load(active=1, current_task="task-123"), AgentSettings(), BUSY)).error
    assert error.code is ErrorCode.AGENT_BUSY
    assert error.metadata == {"current_task": "task-123"}


def test_an_agent_that_lets_tasks_wait_has_a_bounded_queue() -> None:
    """Crossing it gets a clear error, and nothing already accepted is lost."""
    settings = AgentSettings(queue_length=2)
    assert admit(Load(active=1), settings, BUSY) == Enqueue()
    assert admit(Load(active=1, queued=1), settings, BUSY) == Enqueue()
    assert "full with 2 tasks" in refused(admit(Load(active=1, queued=2), settings, BUSY)).error.reason


def test_no_setting_makes_a_queue_endless() -> None:
    """Limits exist for every queue."""
    settings = AgentSettings(queue_length=10**9)
    assert isinstance(admit(Load(active=1, queued=MAX_QUEUE_LENGTH), settings, BUSY), Error)


def test_nobody_passes_those_who_wait() -> None:
    """There is room, but the first of the queue is on its way into it."""
    assert admit(Load(active=0, queued=1), AgentSettings(queue_length=2), IDLE) == Enqueue()
    assert isinstance(admit(Load(active=0, queued=1), AgentSettings(), IDLE), Error)


@pytest.mark.parametrize("active", [0, 5, 10_000])
def test_an_agent_without_a_limit_is_never_busy(active: int) -> None:
    """As many as come."""
    settings = AgentSettings(parallel=None)
    assert admit(Load(active=active), settings, BUSY) == Accept()
    assert has_room(Load(active=active), settings)


def test_several_at_once() -> None:
    """The first that waits may go as soon as one of them ends."""
    settings = AgentSettings(parallel=3, queue_length=1)
    assert admit(Load(active=2), settings, BUSY) == Accept()
    assert admit(Load(active=3), settings, BUSY) == Enqueue()
    assert [has_room(Load(active=active), settings) for active in (2, 3, 4)] == [True, False, False]


def test_an_agent_that_has_failed_is_given_nothing() -> None:
    """Until it has recovered; its queue would only grow."""
    error = refused(admit(Load(), AgentSettings(parallel=None, queue_length=5), AgentStatus.ERROR)).error
    assert error.code is ErrorCode.AGENT_BUSY
