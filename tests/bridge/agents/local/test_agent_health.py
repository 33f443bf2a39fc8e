"""When a command does not work."""

import pytest

from bridge.agents.local.health import FAILURES, IMMEDIATE_SECONDS, MAX_RETRY_DELAY, MIN_RETRY_DELAY, Failed, Health
from bridge.agents.local.output import Ending, Exited, NotStarted, Signalled, Termination

MISSING = NotStarted("The command of this agent was not found.", "The command x was not found.", 127)


def test_a_command_that_cannot_be_started_does_not_work() -> None:
    """At once, with the reason."""
    assert Health().ended(MISSING, 0.1, has_output=False) == Failed("The command x was not found.", MIN_RETRY_DELAY)


@pytest.mark.parametrize("ending", [Exited(1), Signalled(11, "SIGSEGV")])
def test_a_command_that_repeatedly_ends_at_once_does_not_work(ending: Ending) -> None:
    """Once may be the task; three times in a row it is the agent."""
    health = Health()
    for _ in range(FAILURES - 1):
        assert health.ended(ending, 0.1, has_output=False) is None
    failed = health.ended(ending, 0.1, has_output=False)
    assert failed is not None
    assert "at once" in failed.problem


@pytest.mark.parametrize(
    ("ending", "seconds", "has_output"),
    [
        (Exited(0), 0.1, False),
        (Exited(1), 0.1, True),
        (Exited(1), IMMEDIATE_SECONDS, False),
        (Signalled(11, "SIGSEGV"), IMMEDIATE_SECONDS, False),
        (Termination.TIME_LIMIT, 300.0, False),
        (Termination.FLOOD, 0.1, True),
    ],
)
def test_a_failed_task_is_no_failure_of_the_agent(ending: Ending, seconds: float, has_output: bool) -> None:
    """If it ran for a while or wrote output; earlier failures then no longer count."""
    health = Health()
    for _ in range(2):
        for _ in range(FAILURES - 1):
            assert health.ended(Exited(1), 0.1, has_output=False) is None
        assert health.ended(ending, seconds, has_output=has_output) is None


def test_the_pause_grows() -> None:
    """Up to a minute; after a success it starts again."""
    health = Health()
    pauses = []
    for _ in range(10):
        failed = health.ended(Exited(1), 0.1, has_output=False) or health.failed("Still not.")
        pauses.append(failed.pause)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[MAX_RETRY_DELAY] * 4]
    assert health.ended(Exited(0), 1.0, has_output=True) is None
    assert health.ended(MISSING, 0.1, has_output=False) == Failed(MISSING.problem, MIN_RETRY_DELAY)
