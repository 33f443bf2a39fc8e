"""`examples/demo_worker.py`, a command for an agent."""

import os
import subprocess
import sys

from tests.support.node import ROOT


def work(prompt: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # With a Python that has no packages installed.
        [sys.executable, "-I", "-S", str(ROOT / "examples" / "demo_worker.py"), "0"],
        input=prompt,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_progress_and_answer_are_separate() -> None:
    """Progress on standard error, the answer on standard output, and exit code 0."""
    done = work("How many words are these?", PALAVER_TASK_FROM="cook@kitchen.local")
    assert (done.returncode, done.stdout) == (0, "5 words. The longest one is “words”.\n")
    assert done.stderr.splitlines()[0] == "reading the task of cook@kitchen.local"
    assert len(done.stderr.splitlines()) == 4


def test_an_empty_task_fails() -> None:
    """With an exit code and a reason."""
    done = work(" \n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no words" in done.stderr
