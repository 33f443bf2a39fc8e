"""The log file of Postgres: read after a failed start, and bounded in size.

The directory belongs to the user of Postgres. The node may be root, so it does not follow a symbolic link and
does not block on a pipe that this user could have created in place of the file.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

ROTATED_ABOVE = 1 << 20  # at a start; one earlier log is kept
TRUNCATED_ABOVE = 16 << 20  # while running
READ_AT_MOST = 64 << 10
FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in the log."""

    inode: int = 0
    size: int = 0


def end_of_log(path: Path) -> LogPosition:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return LogPosition()
    return LogPosition(found.st_ino, found.st_size)


def read_since(path: Path, start: LogPosition) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | FLAGS)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        # After a rotation the whole file is new.
        begin = start.size if found.st_ino == start.inode else 0
        file.seek(max(begin, found.st_size - READ_AT_MOST))
        return file.read(READ_AT_MOST).decode(errors="replace")


def truncate(path: Path, limit: int = TRUNCATED_ABOVE) -> bool:
    """Empty the log if it is too long. Postgres opens it in append mode, so it continues at the new end."""
    try:
        handle = os.open(path, os.O_WRONLY | FLAGS)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size <= limit:
                return False
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)
    except OSError:
        return False
    return True
