"""Postgres' settings for a small server that belongs to one node.

They are given on the command line at every start, so that a new Palaver brings its settings to an old
directory and nothing that was edited by hand inside it is overwritten.
"""

from collections.abc import Mapping

from storage.embedded.layout import MAJOR

# Marks the process as the server of one data directory where `/proc/PID/cwd` may not be read.
MARK = "palaver.directory"

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


def arguments(directory: str, max_connections: int, extra: Mapping[str, str]) -> list[str]:
    """The command line of `postgres`; @home@ stands for the path it can be reached by."""
    chosen = {
        **SETTINGS,
        "max_connections": str(max_connections),
        **extra,
        MARK: directory,
    }
    words = ["-D", f"@home@/{MAJOR}", "-k", "@home@"]
    for name, value in chosen.items():
        words += ["-c", f"{name}={value}"]
    return words
