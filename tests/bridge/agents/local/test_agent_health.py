"""Whether a command works."""

import pytest

from bridge.agents.local.health import (
    FAILURES,
    IMMEDIATE_SECONDS,
    MAX_RETRY_DELAY,
    MIN_RETRY_DELAY,
    Failed,
    Health,
)
from bridge.agents.local.output import Ending, Exited, NotStarted, Signalled, Termination

MISSING = NotStarted("The command of this agent was not found.", "The command x was not found.", 127)


def test_what_cannot_be_started_has_failed() -> None:
    """At once, and with the sentence that says why."""
    assert Health().ended(MISSING, 0.1, has_answered=False) == Failed(
        "The command x was not found.", MIN_RETRY_DELAY
    )


@pytest.mark.parametrize("ending", [Exited(1), Signalled(11, "SIGSEGV")])
def test_what_ends_at_once_again_and_again_has_failed(ending: Ending) -> None:
    """Once may be the task; three times in a row it is the agent."""
    health = Health()
    for _ in range(FAILURES - 1):
        assert health.ended(ending, 0.1, has_answered=False) is None
    failed = health.ended(ending, 0.1, has_answered=False)
    assert failed is not None
    assert "at once" in failed.problem


@pytest.mark.parametrize(
    ("ending", "seconds", "has_answered"),
    [
        (Exited(0), 0.1, False),
        (Exited(1), 0.1, True),
        (Exited(1), IMMEDIATE_SECONDS, False),
        (Signalled(11, "SIGSEGV"), IMMEDIATE_SECONDS, False),
        (Termination.TIME_LIMIT, 300.0, False),
        (Termination.FLOOD, 0.1, True),
    ],
)
def test_a_task_that_was_not_done_is_no_failure_of_the_agent(
    ending: Ending, seconds: float, has_answered: bool
) -> None:
    """It had its time, or it said something; and what failed before does not count any more."""
    health = Health()
    for _ in range(2):
        for _ in range(FAILURES - 1):
            assert health.ended(Exited(1), 0.1, has_answered=False) is None
        assert health.ended(ending, seconds, has_answered=has_answered) is None


def test_it_is_left_alone_for_longer_each_time() -> None:
    """Up to a minute; and begins from the start once a task has gone well."""
    health = Health()
    pauses = []
    for _ in range(10):
        failed = health.ended(Exited(1), 0.1, has_answered=False) or health.failed("Still not.")
        pauses.append(failed.pause)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[MAX_RETRY_DELAY] * 4]
    assert health.ended(Exited(0), 1.0, has_answered=True) is None
    assert health.ended(MISSING, 0.1, has_answered=False) == Failed(MISSING.problem, MIN_RETRY_DELAY)
