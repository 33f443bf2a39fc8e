"""Atomic and durable replacement of small files: after a power failure the old or the new content is
there."""

import contextlib
import os
import secrets
from pathlib import Path


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the file: write a temporary file beside it, flush it to disk, and rename it."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        raise
    flush_directory(path.parent)


def flush_directory(directory: Path) -> None:
    """Flush a directory to disk: a rename is durable only after that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
