"""Finds the Postgres that an earlier node left running, and clears away what one left that runs no more.

`postmaster.pid`, in which a running Postgres says who it is, and whether to believe it.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from storage.embedded.home import Layout
from storage.embedded.initialise import DIRECTORY_SETTING
from storage.embedded.launch import Process

HIGHEST_PID = 1 << 22  # Linux counts no further


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """The first line; what else the file says is seen from inside the server's own mount namespace."""

    pid: int
    single_user: bool


def parse(text: str) -> PostmasterFile | None:
    """None for a file that holds no process number, which is what a crash while writing it leaves."""
    first = text.partition("\n")[0].strip()
    digits = first.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) <= HIGHEST_PID:
        return None
    # A single-user Postgres writes its number negated.
    return PostmasterFile(int(digits), first.startswith("-"))


class Ownership(StrEnum):
    """What a process is to the directory whose postmaster.pid names it."""

    OURS = "ours"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What can be seen of a process from outside.

    `directory` identifies its working directory by device and inode, None where the machine does not let us
    look: a root without CAP_SYS_PTRACE, as in most containers, may not see that of another user's process.
    """

    command: tuple[str, ...]
    directory: tuple[int, int] | None


def classify(sight: ProcessInfo, cluster: tuple[int, int], home: str) -> Ownership:
    """Is it the Postgres of this very cluster, or an unrelated process that got the number of a dead one?

    A Postgres works in its cluster's directory, which is the same inode in every mount namespace. The time of
    its start decides nothing: the clock of a machine that has just booted may jump by years.
    """
    if not sight.command or sight.command[0].rpartition("/")[2] != "postgres":
        return Ownership.UNRELATED
    if sight.directory is not None:
        return Ownership.OURS if sight.directory == cluster else Ownership.UNRELATED
    return Ownership.OURS if f"{DIRECTORY_SETTING}={home}" in sight.command else Ownership.UNRELATED


async def find_running(layout: Layout) -> Process | None:
    try:
        named = parse(layout.postmaster_file.read_text(errors="replace"))
    except FileNotFoundError:
        return None
    if named is None:
        remove_stale_files(layout)
        return None
    try:
        process = Process(named.pid)
    except ProcessLookupError:
        # Postgres itself sees that, and then looks for what this process may have left in memory.
        return None
    ours = False
    try:
        # Judged only while its handle is held: from here on the number cannot pass to another process.
        claim = classify_process(layout, process.pid)
        ours = claim is Ownership.OURS and not named.single_user and not await process.ended(0)
    finally:
        if not ours:
            await process.close()
    if claim is Ownership.UNRELATED:
        remove_stale_files(layout)
    return process if ours else None


def remove_stale_files(layout: Layout) -> None:
    """Remove the files that name no Postgres of ours.

    Postgres would take any living process of its user for its predecessor, and a file without a number for
    one that is just starting, and refuse to start. Should a server be running after all, it is protected
    still: Postgres finds its shared memory by the directory's inode.
    """
    layout.postmaster_file.unlink(missing_ok=True)
    layout.socket_lock.unlink(missing_ok=True)


def classify_process(layout: Layout, pid: int) -> Ownership:
    cluster = layout.cluster.stat()
    return classify(inspect_process(pid), (cluster.st_dev, cluster.st_ino), str(layout.home))


def inspect_process(pid: int) -> ProcessInfo:
    process = Path(f"/proc/{pid}")
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ProcessInfo((), None)
    command = tuple(os.fsdecode(word) for word in words if word)
    try:
        directory = (process / "cwd").stat()
    except PermissionError:
        return ProcessInfo(command, None)
    except OSError:
        return ProcessInfo((), None)
    return ProcessInfo(command, (directory.st_dev, directory.st_ino))
