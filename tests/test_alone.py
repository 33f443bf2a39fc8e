"""What failed beside others is run once more, alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.alone import MOST, failed

ALONE = Path(__file__).with_name("alone.py")
# Each fails the first time; `both` every time.
TESTS = """
import pathlib, pytest

@pytest.mark.parametrize("name", {names})
@pytest.mark.xdist_group("g")
def test_it(name):
    there = pathlib.Path(name)
    first = not there.exists()
    there.touch()
    assert not first and name != "both"
"""


def _run(directory: Path, *names: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_them.py").write_text(TESTS.format(names=list(names)))
    first = ["-m", "pytest", "-q", "-p", "no:randomly", "test_them.py"]
    before = subprocess.run([sys.executable, *first], cwd=directory, capture_output=True, check=False)
    assert before.returncode == 1
    return subprocess.run(
        [sys.executable, str(ALONE)], cwd=directory, capture_output=True, text=True, check=False
    )


def test_one_that_passes_alone_is_told_of(tmp_path: Path) -> None:
    """It is a fault, and nobody may overlook it."""
    ran = _run(tmp_path, "once")
    assert ran.returncode == 0
    assert ran.stdout.count("test_them.py::test_it[once]") == 2


def test_one_that_fails_alone_has_failed(tmp_path: Path) -> None:
    """Whatever the others do."""
    assert _run(tmp_path, "once", "both").returncode == 1


def test_many_are_no_chance(tmp_path: Path) -> None:
    """They are not even run again."""
    ran = _run(tmp_path, *(f"t{number}" for number in range(MOST + 1)))
    assert (ran.returncode, ran.stdout) == (1, "")


def test_nothing_that_failed_is_no_success(tmp_path: Path) -> None:
    """Then it was something else that went wrong."""
    ran = subprocess.run([sys.executable, str(ALONE)], cwd=tmp_path, check=False)
    assert ran.returncode == 1


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("a/test_b.py::test_c@people", "a/test_b.py::test_c"),
        ("a/test_b.py::test_c[x@y]", "a/test_b.py::test_c[x@y]"),
        ("a/test_b.py::test_c[x@y]@two-nodes", "a/test_b.py::test_c[x@y]"),
    ],
)
def test_groups_are_no_part_of_a_name(said: str, name: str) -> None:
    """pytest-xdist writes them behind it."""
    assert failed(f'{{"{said}": true}}') == [name]


def test_processes_are_no_tests() -> None:
    """What a run left behind whose processes did not agree is no reason for the next to fail. A file that
    cannot be read is one."""
    assert failed('{"gw1": true, "tests/gw1.py": true}') == ["tests/gw1.py"]
