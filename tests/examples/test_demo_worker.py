"""`examples/demo_worker.py`: a command as an agent's command is to be."""

import os
import subprocess
import sys

from tests.support.node import ROOT


def work(prompt: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # In a Python that has nothing installed.
        [sys.executable, "-I", "-S", str(ROOT / "examples" / "demo_worker.py"), "0"],
        input=prompt,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_answer_stands_apart_from_what_is_told_on_the_way() -> None:
    """Progress on standard error, the answer on standard output, and 0 for success."""
    done = work("How many words are these?", PALAVER_TASK_FROM="cook@kitchen.local")
    assert (done.returncode, done.stdout) == (0, "5 words. The longest one is “words”.\n")
    assert done.stderr.splitlines()[0] == "reading the task of cook@kitchen.local"
    assert len(done.stderr.splitlines()) == 4


def test_it_fails_when_there_is_nothing_to_do() -> None:
    """With a code, and a reason."""
    done = work(" \n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no words" in done.stderr
