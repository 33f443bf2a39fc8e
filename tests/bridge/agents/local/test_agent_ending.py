"""The outcome of a task by the end of its process."""

import pytest

from bridge.agents.local.output import CapturedOutput, Ending, Exited, NotStarted, Signalled, Termination, outcome_of
from bridge.agents.work import WorkOutcome
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError

OUT = CapturedOutput("out", 3, 0)
NONE = CapturedOutput(" \n", 2, 0)
CUT = CapturedOutput("o…t", 1000, 997)


@pytest.mark.parametrize(
    ("ending", "output", "said", "expected"),
    [
        (Exited(0), OUT, "log", Answer(True, "out", 0)),
        (Exited(0), CUT, "", Answer(True, "o…t", 0, {"output_bytes": 1000, "output_left_out": 997})),
        (Exited(0), NONE, "log", Answer(True, " \n", 0)),
        (Exited(3), OUT, "", Answer(False, "out", 3)),
        (Exited(3), OUT, "why", Answer(False, "out", 3, {"stderr": "why"})),
        (Exited(1), NONE, "why", Answer(False, "why", 1, {"stderr": "why"})),
        (Signalled(11, "SIGSEGV"), OUT, "", Answer(False, "out", 139, {"signal": "SIGSEGV"})),
        (
            NotStarted("Not found.", "x was not found.", 127),
            NONE,
            "",
            Answer(False, "Not found.", 127, {"not_started": True}),
        ),
        (Termination.FLOOD, OUT, "", Answer(False, "out", 1, {"ended": "It wrote without end."})),
        (Termination.LOST, OUT, "", Answer(False, "out", 1, {"ended": "The supervisor of the process was killed."})),
        (
            Termination.TIME_LIMIT,
            OUT,
            "log",
            TaskError(
                ErrorCode.TIMEOUT,
                "The agent did not finish within 300 s and was stopped.",
                {"output": "out", "stderr": "log"},
            ),
        ),
    ],
)
def test_each_ending_has_its_outcome(ending: Ending, output: CapturedOutput, said: str, expected: WorkOutcome) -> None:
    """Zero is success; any other end is a failure with its code; the time limit is TIMEOUT. Without output
    the answer is what was written to standard error."""
    assert outcome_of(ending, output, said, 300.0) == expected
