"""Room on the disk. A Postgres that runs out of it stops; better to say so before."""

import os
from pathlib import Path

from storage.errors import LocalError

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
FULL_TEXTS = ("No space left on device", "Disk quota exceeded")


def free_space(directory: Path) -> int:
    """Bytes that an ordinary user can still write there; what is reserved for root is not for Postgres.

    The directory itself may still have to be made.
    """
    while not directory.exists():
        directory = directory.parent
    usage = os.statvfs(directory)
    return usage.f_bavail * usage.f_frsize


def refuse_full(directory: Path, minimum: int) -> None:
    free = free_space(directory)
    if free < minimum:
        raise too_little(directory, free, f"Postgres needs {readable(minimum)} there to start")


def too_little(directory: Path, free: int, need: str) -> LocalError:
    return LocalError(
        f"Only {readable(free)} are free on the disk of {directory}, and {need}.",
        "Make room on that disk, or set data_dir to a directory on another one.",
    )


def readable(count: int) -> str:
    size = float(count)
    for unit in UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {UNITS[-1]}"
