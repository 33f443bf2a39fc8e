"""A small file is either the old one or the new one."""

import stat
from pathlib import Path

import pytest

from storage.durable_file import write_durably


def test_the_new_contents_take_the_place_of_the_old(tmp_path: Path) -> None:
    """One name, one file: nothing is left beside it."""
    path = tmp_path / "key"
    write_durably(path, b"one")
    write_durably(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_right_from_the_first_byte(tmp_path: Path) -> None:
    """A secret is never readable by others, not for a moment."""
    write_durably(tmp_path / "key", b"secret")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    """Whatever goes wrong, what was there stays there."""
    path = tmp_path / "key"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_durably(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
