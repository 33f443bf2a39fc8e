"""The data directory is held by one node at a time."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.node.data_directory import AlreadyRunning, DataDirectory, cannot_use
from storage.errors import LocalError


def test_it_is_made_on_first_use_and_closed_to_others(tmp_path: Path) -> None:
    """It will hold the signing key."""
    with DataDirectory(tmp_path / "a" / "data") as held:
        assert stat.S_IMODE(held.path.stat().st_mode) == 0o700


def test_a_second_holder_is_told_who_holds_it(tmp_path: Path) -> None:
    """Two nodes in one directory would both write its state."""
    with DataDirectory(tmp_path), pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"):
        DataDirectory(tmp_path).__enter__()


def test_it_is_free_again_after_a_clean_end(tmp_path: Path) -> None:
    """A lock file that stays behind locks nobody out."""
    for _ in range(2):
        with DataDirectory(tmp_path):
            pass


def test_it_is_free_again_after_a_kill(tmp_path: Path) -> None:
    """The kernel ends the hold with the process."""
    code = (
        "import sys, time, pathlib; from bridge.node.data_directory import DataDirectory\n"
        "with DataDirectory(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning):
            DataDirectory(tmp_path).__enter__()
        holder.kill()
    with DataDirectory(tmp_path):
        pass


def test_a_file_in_its_place_is_told(tmp_path: Path) -> None:
    """Not as a traceback."""
    (tmp_path / "data").write_text("")
    with pytest.raises(LocalError, match="not a directory"):
        DataDirectory(tmp_path / "data").__enter__()


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "is full"),
        (errno.EACCES, "user that owns it"),
        (errno.EROFS, "can't be written"),
        (errno.EIO, "can't be used"),
    ],
)
def test_each_reason_has_its_sentence(number: int, told: str) -> None:
    """What to do differs."""
    assert told in str(cannot_use(Path("data"), OSError(number, os.strerror(number))))
