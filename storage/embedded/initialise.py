"""Makes a new cluster, whole or not at all: a kill in the middle leaves only what the next start removes.

Postgres' settings for a small server that belongs to one node.

They are given on the command line at every start, so that a new Palaver brings its settings to an old
directory and nothing that was edited by hand inside it is overwritten.
"""

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import Mapping

from storage.embedded.home import MAJOR, Layout, open_directory
from storage.embedded.launch import Programs

REMOVAL_TIMEOUT = 5.0


def is_initialised(layout: Layout) -> bool:
    return layout.cluster.is_dir() and any(layout.cluster.iterdir())


async def initialise(programs: Programs) -> None:
    layout = programs.layout
    await asyncio.to_thread(remove_unfinished, layout)
    # A name that was never used: the programs of an interrupted attempt may live a moment longer than the
    # node that started them, and would write into, or remove, what has their name.
    name = layout.unfinished + secrets.token_hex(4)
    await programs.initdb(
        [
            *("--pgdata", f"@home@/{name}"),
            *("--username", "palaver"),
            *("--encoding", "UTF8", "--locale", "C", "--data-checksums"),
            # The mode of the socket's directory says who may come in; TCP is off.
            *("--auth-local", "trust", "--auth-host", "reject"),
            "--no-instructions",
        ]
    )
    (layout.home / name).rename(layout.cluster)
    with open_directory(layout.home) as handle:
        # initdb has synced what is inside; the new name has to survive a power cut as well.
        await asyncio.to_thread(os.fsync, handle)


def remove_unfinished(layout: Layout) -> None:
    """Remove the leftovers of interrupted attempts; what is still being written to is left to the next."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT
    for path in layout.home.glob(layout.unfinished + "*"):
        while path.exists():
            shutil.rmtree(path, ignore_errors=True)
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)  # in a thread of its own


# Marks the process as the server of one data directory where `/proc/PID/cwd` may not be read.
DIRECTORY_SETTING = "palaver.directory"

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    # No replica ever reads from this server, so the log of changes holds only what recovery needs.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "64MB",
    "max_wal_size": "512MB",
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # What a peer sends ends up in statements and in their DETAIL lines, and does not belong in a log.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}


def server_arguments(directory: str, max_connections: int, extra: Mapping[str, str]) -> list[str]:
    """The command line of `postgres`; @home@ stands for the path it can be reached by."""
    chosen = {
        **SETTINGS,
        "max_connections": str(max_connections),
        **extra,
        DIRECTORY_SETTING: directory,
    }
    words = ["-D", f"@home@/{MAJOR}", "-k", "@home@"]
    for name, value in chosen.items():
        words += ["-c", f"{name}={value}"]
    return words
