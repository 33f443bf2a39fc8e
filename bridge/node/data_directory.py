"""The data directory: created on first use, and locked by one node at a time."""

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage.errors import LocalError

LOCK: Final = "palaver.lock"


class DataDirectory:
    """An exclusive lock on the directory. The kernel releases it when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self._make()
        lock = self.path / LOCK
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise cannot_use(self.path, error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise AlreadyRunning(self.path, holder) from None
        except OSError as error:
            os.close(descriptor)
            raise cannot_use(self.path, error) from None
        self._lock = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> None:
        try:
            # No other user needs access: it holds the signing key. An embedded Postgres that runs as another
            # user gets access to its own directory from the part that starts it.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_use(self.path, error) from None


class AlreadyRunning(LocalError):
    """Another process holds the data directory."""

    def __init__(self, path: Path, holder: str) -> None:
        process = f" (process {holder})" if holder.isdigit() else ""
        super().__init__(
            f"A node is already running on {path}{process}.",
            "`palaver status` shows it. For a second node choose another data_dir and another port.",
        )


def cannot_use(path: Path, error: OSError) -> LocalError:
    """Why the directory cannot be used, as an error for the operator."""
    if error.errno == errno.ENOSPC:
        return LocalError(
            f"The disk that holds {path} is full.", "Free some space, or choose a data_dir on another disk."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return LocalError(
            f"The data directory {path} can't be written: {error.strerror}.",
            "Start the node as the user that owns it, or choose another data_dir.",
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return LocalError(f"The data directory {path} is not a directory.", "Choose another data_dir.")
    return LocalError(f"The data directory {path} can't be used: {error.strerror}.", "Choose another data_dir.")
