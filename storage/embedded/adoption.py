"""Adopts a Postgres that an earlier node process left running, and removes stale files of a dead one.

Reads `postmaster.pid`, in which a running Postgres writes its process id, and checks that process.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from storage.embedded.home import Layout
from storage.embedded.initialise import DIRECTORY_SETTING
from storage.embedded.launch import Process

HIGHEST_PID = 1 << 22  # the limit of Linux


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """The first line. The other lines have paths in the mount namespace of the server."""

    pid: int
    single_user: bool


def parse(text: str) -> PostmasterFile | None:
    """None for a file without a process id, which a crash during writing leaves."""
    first = text.partition("\n")[0].strip()
    digits = first.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) <= HIGHEST_PID:
        return None
    # A single-user Postgres writes its process id negated.
    return PostmasterFile(int(digits), first.startswith("-"))


class Ownership(StrEnum):
    """How the process named by postmaster.pid is related to the data directory."""

    THIS_CLUSTER = "this cluster"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The command line and working directory of a process.

    `directory` is (device, inode) of the working directory. It is None if it cannot be read: root without
    CAP_SYS_PTRACE, as in most containers, cannot read it for a process of another user.
    """

    command: tuple[str, ...]
    directory: tuple[int, int] | None


def classify(info: ProcessInfo, cluster: tuple[int, int], home: str) -> Ownership:
    """Decide whether the process is the Postgres of this cluster, or an unrelated process with the same id.

    A Postgres has its cluster's directory as working directory, which is the same inode in every mount
    namespace. The start time is not used: the clock of a machine that has just booted may jump by years.
    """
    if not info.command or info.command[0].rpartition("/")[2] != "postgres":
        return Ownership.UNRELATED
    if info.directory is not None:
        return Ownership.THIS_CLUSTER if info.directory == cluster else Ownership.UNRELATED
    return Ownership.THIS_CLUSTER if f"{DIRECTORY_SETTING}={home}" in info.command else Ownership.UNRELATED


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
        # Postgres detects this at its start, and checks for shared memory left by that process.
        return None
    is_adoptable = False
    try:
        # Classified while its pidfd is open: the process id cannot be reused meanwhile.
        ownership = classify_process(layout, process.pid)
        is_adoptable = ownership is Ownership.THIS_CLUSTER and not named.single_user and not await process.ended(0)
    finally:
        if not is_adoptable:
            await process.close()
    if ownership is Ownership.UNRELATED:
        remove_stale_files(layout)
    return process if is_adoptable else None


def remove_stale_files(layout: Layout) -> None:
    """Remove the pid file and the socket lock, which do not name a Postgres of this directory.

    Postgres would take any running process of its user for its predecessor, and a file without a process id
    for a starting server, and refuse to start. If a server runs after all, it is still protected: Postgres
    finds its shared memory by the inode of the directory.
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
