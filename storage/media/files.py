"""The bytes of media, in files below one directory, each named by the SHA-256 of what is in it.

No name here is made of anything that somebody sent: a hash is ours, the rest is written below. All of it
blocks; whoever has an event loop calls it in a thread.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Literal

from storage.durable_file import flush_directory
from storage.embedded.home import free_space
from storage.errors import LocalError

HEAD_BYTES = 64
"""How much of the beginning is remembered, for whoever wants to know what it is."""
_HASH = re.compile("[0-9a-f]{64}")
_FORGOTTEN = 24 * 3600.0
"""Seconds after which a file that was being written is one that a killed process has left."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(LocalError):
    """The disk is full, or so full that the rest is needed for other things."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"There is no room left for media on the disk of {directory}.",
            "Make room on that disk, or set data_dir to a directory on another one.",
        )


class PendingFile:
    """A file that is being written, under a name that nobody knows. It is kept or discarded, once."""

    def __init__(self, files: "MediaFiles") -> None:
        self._files = files
        self._path = files.temporary()
        self._hash = hashlib.sha256()
        self.size = 0
        self.head = b""
        self._file: FileIO | None = _opened(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")

    def write(self, data: bytes) -> None:
        """Raises `DiskFull`."""
        assert self._file is not None, "it was kept or discarded"
        self._files.refuse_full(len(data))
        self._hash.update(data)
        self.size += len(data)
        self.head += data[: HEAD_BYTES - len(self.head)]
        view = memoryview(data)
        with self._files.full_disk_named():
            while view:
                view = view[self._file.write(view) :]

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    def flush(self) -> None:
        """Down to the disk, whatever happens to the power."""
        assert self._file is not None, "it was kept or discarded"
        with self._files.full_disk_named():
            os.fsync(self._file.fileno())

    def keep(self) -> None:
        """Give it its name. The same bytes under that name are replaced by the same bytes."""
        self.flush()
        self._rename(self._files.path(self.sha256))

    def keep_thumbnail(self, of: bytes, name: str) -> None:
        """Give it its name among the thumbnails of a picture."""
        self.flush()
        self._rename(self._files.thumbnail(of, name))

    def discard(self) -> None:
        """Forget it; nothing to do once it has its name."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    def handle(self) -> FileIO:
        """For another process to write to. `size`, `head` and `sha256` know nothing of that."""
        assert self._file is not None, "it was kept or discarded"
        return self._file

    def _rename(self, target: Path) -> None:
        assert self._file is not None, "it was kept or discarded"
        with self._files.full_disk_named():
            _make_durably(target.parent, self._files.directory)
            self._path.rename(target)
            flush_directory(target.parent)
        self._file.close()
        self._file = None


class MediaFiles:
    """`reserve`: bytes of the disk that media leave to everything else."""

    def __init__(self, directory: Path, *, reserve: int = 0) -> None:
        self.directory = directory
        self._reserve = reserve
        self._temporary = directory / "incoming"
        self._originals = directory / "sha256"
        self._thumbnails = directory / "thumbnails"

    def prepare(self) -> None:
        """Make the directories, and clear away what a killed process was writing."""
        for directory in (self._temporary, self._originals, self._thumbnails):
            _make_durably(directory, self.directory.parent)
        oldest = time.time() - _FORGOTTEN
        for left in self._temporary.iterdir():
            # Another process of this node may be writing the younger ones.
            with contextlib.suppress(FileNotFoundError):
                if left.stat().st_mtime < oldest:
                    left.unlink()

    def begin(self) -> PendingFile:
        return PendingFile(self)

    def open(self, sha256: bytes) -> FileIO | None:
        """The bytes of this hash, unless they are not here."""
        return _open(self.path(sha256))

    def open_thumbnail(self, of: bytes, name: str) -> FileIO | None:
        return _open(self.thumbnail(of, name))

    def delete(self, sha256: bytes) -> None:
        """The bytes and the thumbnails made of them. Whoever reads them goes on reading."""
        with contextlib.suppress(FileNotFoundError):
            self.path(sha256).unlink()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._two_levels(self._thumbnails, sha256))

    def sections(self) -> list[Path]:
        """The directories of the first level, each with a part of all files."""
        return sorted(self._originals.iterdir())

    def kept_in(self, section: Path) -> list[bytes]:
        """The hashes of the files in one of them."""
        names = [section.name + file.parent.name + file.name for file in section.glob("*/*")]
        # Whatever else somebody has put there is left alone.
        return [bytes.fromhex(name) for name in names if _HASH.fullmatch(name)]

    def path(self, sha256: bytes) -> Path:
        return self._two_levels(self._originals, sha256)

    def thumbnail(self, of: bytes, name: str) -> Path:
        assert name.replace("-", "").isalnum(), "the names of thumbnails are our own"
        return self._two_levels(self._thumbnails, of) / name

    def temporary(self) -> Path:
        return self._temporary / secrets.token_hex(16)

    def refuse_full(self, wanted: int) -> None:
        """Raises `DiskFull` before the disk is full: a Postgres that finds it full stops."""
        if free_space(self._temporary) < self._reserve + wanted:
            raise DiskFull(self.directory)

    @contextlib.contextmanager
    def full_disk_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise DiskFull(self.directory) from error
            raise

    def _two_levels(self, below: Path, sha256: bytes) -> Path:
        name = sha256.hex()
        assert _HASH.fullmatch(name), "a SHA-256 has 32 bytes"
        return below / name[:2] / name[2:4] / name[4:]


def _opened(path: Path, flags: int, mode: Literal["rb", "wb"]) -> FileIO:
    return os.fdopen(os.open(path, flags | os.O_NOFOLLOW, 0o600), mode, buffering=0)


def _open(path: Path) -> FileIO | None:
    try:
        return _opened(path, os.O_RDONLY, "rb")
    except FileNotFoundError:
        return None


def _make_durably(directory: Path, above: Path) -> None:
    """With all directories between it and `above`, each of them known to the disk."""
    if directory == above or directory.is_dir():
        return
    _make_durably(directory.parent, above)
    directory.mkdir(mode=0o700, exist_ok=True)
    flush_directory(directory.parent)
