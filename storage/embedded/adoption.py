"""Finds the Postgres that an earlier node left running, and clears away what one left that runs no more."""

import os
from pathlib import Path

from storage.embedded.layout import Layout
from storage.embedded.postmaster_file import Claim, Sight, judge, parse
from storage.embedded.process import Process


async def find_running(layout: Layout) -> Process | None:
    try:
        named = parse(layout.postmaster_file.read_text(errors="replace"))
    except FileNotFoundError:
        return None
    if named is None:
        clear(layout)
        return None
    try:
        process = Process(named.pid)
    except ProcessLookupError:
        # Postgres itself sees that, and then looks for what this process may have left in memory.
        return None
    ours = False
    try:
        # Judged only while its handle is held: from here on the number cannot pass to another process.
        claim = look_at(layout, process.pid)
        ours = claim is Claim.OURS and not named.single_user and not await process.ended(0)
    finally:
        if not ours:
            await process.close()
    if claim is Claim.UNRELATED:
        clear(layout)
    return process if ours else None


def clear(layout: Layout) -> None:
    """Remove the files that name no Postgres of ours.

    Postgres would take any living process of its user for its predecessor, and a file without a number for
    one that is just starting, and refuse to start. Should a server be running after all, it is protected
    still: Postgres finds its shared memory by the directory's inode.
    """
    layout.postmaster_file.unlink(missing_ok=True)
    layout.socket_lock.unlink(missing_ok=True)


def look_at(layout: Layout, pid: int) -> Claim:
    cluster = layout.cluster.stat()
    return judge(sight_of(pid), (cluster.st_dev, cluster.st_ino), str(layout.home))


def sight_of(pid: int) -> Sight:
    process = Path(f"/proc/{pid}")
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return Sight((), None)
    command = tuple(os.fsdecode(word) for word in words if word)
    try:
        directory = (process / "cwd").stat()
    except PermissionError:
        return Sight(command, None)
    except OSError:
        return Sight((), None)
    return Sight(command, (directory.st_dev, directory.st_ino))
