"""Durable replacement of small files."""

import stat
from pathlib import Path

import pytest

from storage.durable_file import write_durably


def test_the_file_is_replaced(tmp_path: Path) -> None:
    """No other file remains beside it."""
    path = tmp_path / "key"
    write_durably(path, b"one")
    write_durably(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_right_from_the_first_byte(tmp_path: Path) -> None:
    """A secret is never readable by other users."""
    write_durably(tmp_path / "key", b"secret")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    """And leaves no other file."""
    path = tmp_path / "key"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_durably(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
