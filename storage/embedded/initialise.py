"""Creates a new cluster, completely or not at all, and defines the settings of the embedded Postgres.

A kill during the initialisation leaves only files that the next start removes.

The settings are passed on the command line at every start, so that a new Palaver applies its settings to an
old directory, and no file that was edited by hand is overwritten.
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
    # A new name: the programs of an interrupted attempt may outlive their node for a moment, and would write
    # into the directory of the same name or remove it.
    name = layout.unfinished + secrets.token_hex(4)
    await programs.initdb(
        [
            *("--pgdata", f"@home@/{name}"),
            *("--username", "palaver"),
            *("--encoding", "UTF8", "--locale", "C", "--data-checksums"),
            # The mode of the socket's directory restricts access; TCP is off.
            *("--auth-local", "trust", "--auth-host", "reject"),
            "--no-instructions",
        ]
    )
    (layout.home / name).rename(layout.cluster)
    with open_directory(layout.home) as handle:
        # initdb has synced the files; the new name has to survive a power failure as well.
        await asyncio.to_thread(os.fsync, handle)


def remove_unfinished(layout: Layout) -> None:
    """Remove the leftovers of interrupted attempts. A directory that is still being written to is left to the
    next start."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT
    for path in layout.home.glob(layout.unfinished + "*"):
        while path.exists():
            shutil.rmtree(path, ignore_errors=True)
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)  # runs in a thread


# A setting that identifies the server of a data directory where `/proc/PID/cwd` cannot be read.
DIRECTORY_SETTING = "palaver.directory"

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    # No replica reads from this server, so the WAL needs only what recovery needs.
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
    # Statements and their DETAIL lines contain data of peers, which must not be logged.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}


def server_arguments(directory: str, max_connections: int, extra: Mapping[str, str]) -> list[str]:
    """The command line of `postgres`. The launcher replaces @home@ by the path of the home."""
    values = {**SETTINGS, "max_connections": str(max_connections), **extra, DIRECTORY_SETTING: directory}
    words = ["-D", f"@home@/{MAJOR}", "-k", "@home@"]
    for name, value in values.items():
        words += ["-c", f"{name}={value}"]
    return words
