"""The data directory is locked by one node at a time."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.node.data_directory import AlreadyRunning, DataDirectory, cannot_use
from storage.errors import LocalError


def test_created_with_mode_0700(tmp_path: Path) -> None:
    """It will hold the signing key."""
    with DataDirectory(tmp_path / "a" / "data") as held:
        assert stat.S_IMODE(held.path.stat().st_mode) == 0o700


def test_second_node_is_refused(tmp_path: Path) -> None:
    """With the process id of the first one: two nodes would overwrite each other's state."""
    with DataDirectory(tmp_path), pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"):
        DataDirectory(tmp_path).__enter__()


def test_released_after_exit(tmp_path: Path) -> None:
    """A remaining lock file does not matter."""
    for _ in range(2):
        with DataDirectory(tmp_path):
            pass


def test_released_after_a_kill(tmp_path: Path) -> None:
    """The kernel releases the lock."""
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


def test_file_instead_of_directory(tmp_path: Path) -> None:
    """A sentence, not a traceback."""
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
def test_each_error_has_its_advice(number: int, told: str) -> None:
    """For full disks, permissions and others."""
    assert told in str(cannot_use(Path("data"), OSError(number, os.strerror(number))))
