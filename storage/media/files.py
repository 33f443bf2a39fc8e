"""The content of media, in files below one directory, each named by the SHA-256 of its content.

File names contain nothing that a client or server sent, only hashes computed here and constants. All
functions block; call them in a thread.
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
"""How many bytes of the beginning are kept in memory, to detect the media type."""
_HASH = re.compile("[0-9a-f]{64}")
_ABANDONED_AFTER = 24 * 3600.0
"""Seconds after which a temporary file is taken for one that a killed process has left."""
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(LocalError):
    """The disk is full, or only the reserve for other data is free."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"There is no space left for media on the disk of {directory}.",
            "Free space on that disk, or set data_dir to a directory on another disk.",
        )


class PendingFile:
    """A file that is being written under a temporary name. It must be saved or discarded, once."""

    def __init__(self, files: "MediaFiles") -> None:
        self._files = files
        self._path = files.temporary()
        self._hash = hashlib.sha256()
        self.size = 0
        self.head = b""
        self._file: FileIO | None = _opened(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")

    def write(self, data: bytes) -> None:
        """Raises `DiskFull`."""
        assert self._file is not None, "already saved or discarded"
        self._files.check_free_space(len(data))
        self._hash.update(data)
        self.size += len(data)
        self.head += data[: HEAD_BYTES - len(self.head)]
        view = memoryview(data)
        with self._files.translate_disk_full():
            while view:
                view = view[self._file.write(view) :]

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    def flush(self) -> None:
        """Flush the file to disk."""
        assert self._file is not None, "already saved or discarded"
        with self._files.translate_disk_full():
            os.fsync(self._file.fileno())

    def save(self) -> None:
        """Rename the file to its hash. An existing file of this name has the same content."""
        self.flush()
        self._rename(self._files.path(self.sha256))

    def save_thumbnail(self, of: bytes, name: str) -> None:
        """Save the file as a thumbnail of the image with this hash."""
        self.flush()
        self._rename(self._files.thumbnail(of, name))

    def discard(self) -> None:
        """Delete the file, unless it has been saved."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    def handle(self) -> FileIO:
        """The file for another process to write to. `size`, `head` and `sha256` do not include what it
        writes."""
        assert self._file is not None, "already saved or discarded"
        return self._file

    def _rename(self, target: Path) -> None:
        assert self._file is not None, "already saved or discarded"
        with self._files.translate_disk_full():
            _make_directory_durably(target.parent, self._files.directory)
            self._path.rename(target)
            flush_directory(target.parent)
        self._file.close()
        self._file = None


class MediaFiles:
    """The directory of media files. `reserve`: bytes of the disk that media leave free for other data."""

    def __init__(self, directory: Path, *, reserve: int = 0) -> None:
        self.directory = directory
        self._reserve = reserve
        self._temporary = directory / "incoming"
        self._originals = directory / "sha256"
        self._thumbnails = directory / "thumbnails"

    def prepare(self) -> None:
        """Create the directories, and delete temporary files that a killed process has left."""
        for directory in (self._temporary, self._originals, self._thumbnails):
            _make_directory_durably(directory, self.directory.parent)
        oldest = time.time() - _ABANDONED_AFTER
        for left in self._temporary.iterdir():
            # Another process of this node may still be writing a younger file.
            with contextlib.suppress(FileNotFoundError):
                if left.stat().st_mtime < oldest:
                    left.unlink()

    def begin(self) -> PendingFile:
        return PendingFile(self)

    def open(self, sha256: bytes) -> FileIO | None:
        """Open the file with this hash, or return None if there is none."""
        return _open(self.path(sha256))

    def open_thumbnail(self, of: bytes, name: str) -> FileIO | None:
        return _open(self.thumbnail(of, name))

    def delete(self, sha256: bytes) -> None:
        """Delete the file and its thumbnails. Processes that have it open can still read it."""
        with contextlib.suppress(FileNotFoundError):
            self.path(sha256).unlink()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._two_levels(self._thumbnails, sha256))

    def sections(self) -> list[Path]:
        """The first-level directories, each of which has a part of the files."""
        return sorted(self._originals.iterdir())

    def list_hashes(self, section: Path) -> list[bytes]:
        """The hashes of the files in a first-level directory."""
        names = [section.name + file.parent.name + file.name for file in section.glob("*/*")]
        # Other files in the directory are ignored.
        return [bytes.fromhex(name) for name in names if _HASH.fullmatch(name)]

    def path(self, sha256: bytes) -> Path:
        return self._two_levels(self._originals, sha256)

    def thumbnail(self, of: bytes, name: str) -> Path:
        assert name.replace("-", "").isalnum(), "names of thumbnails are constants"
        return self._two_levels(self._thumbnails, of) / name

    def temporary(self) -> Path:
        return self._temporary / secrets.token_hex(16)

    def check_free_space(self, wanted: int) -> None:
        """Raises `DiskFull` before the disk is completely full, which would stop Postgres."""
        if free_space(self._temporary) < self._reserve + wanted:
            raise DiskFull(self.directory)

    @contextlib.contextmanager
    def translate_disk_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _DISK_FULL_ERRORS:
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


def _make_directory_durably(directory: Path, above: Path) -> None:
    """Create the directory and its missing parents below `above`, and flush each to disk."""
    if directory == above or directory.is_dir():
        return
    _make_directory_durably(directory.parent, above)
    directory.mkdir(mode=0o700, exist_ok=True)
    flush_directory(directory.parent)
