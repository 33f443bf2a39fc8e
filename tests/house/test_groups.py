"""Tests of one group share a process, and with it their peers: a Synapse, nodes, a database."""

import subprocess
import sys
from pathlib import Path

GROUPED = """
import os
import pytest
pytestmark = pytest.mark.xdist_group("one")
@pytest.mark.parametrize("n", range(8))
def test_of_the_group(n):
    with open("processes", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


def test_a_group_runs_in_one_process(tmp_path: Path) -> None:
    """Otherwise each process starts the peers of every group."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    options = ("-n", "2", "--dist", "loadgroup", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_grouped.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(set((tmp_path / "processes").read_text().splitlines())) == 1
