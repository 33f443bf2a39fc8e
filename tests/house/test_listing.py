"""Directories are small, and the tests mirror the packages."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.source import ROOT, Module, modules

MOST_ENTRIES = 22
# Directories that hold more. This list shrinks; it does not grow.
CROWDED: set[str] = set()


def _entries(directory: Path) -> int:
    return sum(path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__") for path in directory.iterdir())


DIRECTORIES = sorted({module.path.parent for module in modules()})


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_number_of_entries_is_limited(directory: Path) -> None:
    """A package with more entries contains more than one feature."""
    name = str(directory.relative_to(ROOT))
    if name in CROWDED:
        assert _entries(directory) > MOST_ENTRIES, "it needs no exception any more"
    else:
        assert _entries(directory) <= MOST_ENTRIES


def test_the_exceptions_exist() -> None:
    """An exception for a removed directory is removed with it."""
    assert {str(directory.relative_to(ROOT)) for directory in DIRECTORIES} >= CROWDED


@pytest.mark.parametrize("package", ["bridge", "appservice", "federation", "storage"])
def test_the_tests_mirror_the_packages(package: str) -> None:
    """The tests of a package are in the directory of the same name below `tests`."""
    tested = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests" / package).rglob("test_*.py")}
    assert tested <= {directory.relative_to(ROOT) for directory in DIRECTORIES}


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative))
def test_no_module_is_longer_than_five_hundred_lines(module: Module) -> None:
    """Look twice at 300, split at 500."""
    assert len(module.path.read_text().splitlines()) <= 500


def test_there_are_no_todo_comments() -> None:
    """Unfinished work is an issue, not a comment."""
    marks = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error"])
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], check=False, cwd=ROOT, capture_output=True, text=True
    )
    files = (
        listed.stdout.split()
        if listed.returncode == 0
        else [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")]
    )
    left = [
        f"{name}:{number}"
        for name in files
        if name.endswith((".py", ".sql", ".toml", ".sh", ".js")) and (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), start=1)
        if re.search(rf"\b({marks})\b", line)
    ]
    assert left == []
