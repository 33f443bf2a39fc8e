"""Detecting distributions that overwrite Palaver's packages."""

from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from bridge.node.doctor import NAMES, conflicting_distributions


def _installed(directory: Path, name: str, files: list[str]) -> Distribution:
    information = directory / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        # From Python 3.12 on, only existing files are listed.
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).touch()
    return PathDistribution(information)


def test_conflicting_distribution_is_found(tmp_path: Path) -> None:
    """PyPI's unrelated `federation` is recognised by its files."""
    stranger = _installed(tmp_path, "federation", ["federation/__init__.py", "federation/utils.py"])
    assert conflicting_distributions([stranger]) == {"federation": "federation"}


def test_other_files_are_no_conflict(tmp_path: Path) -> None:
    """Only files below one of the names count, except this distribution's."""
    ours = _installed(tmp_path, "palaver", [f"{name}/__init__.py" for name in NAMES])
    neighbour = _installed(tmp_path, "neighbour", ["neighbour/storage/__init__.py", "storage.txt"])
    assert conflicting_distributions([ours, neighbour]) == {}
