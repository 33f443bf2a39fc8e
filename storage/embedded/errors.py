"""Explains why Postgres did not start, from its output."""

import errno
import re
from pathlib import Path
from typing import Any

from storage.embedded.home import DISK_FULL_TEXTS, Identity, not_enough_space
from storage.errors import LocalError

# The backends of a killed Postgres take a moment to notice, and Postgres does not start while they run.
TRANSIENT_TEXTS = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists')
REASON = re.compile(r"(?:FATAL|PANIC|initdb: error|postgres: error):\s*(?P<reason>.+)")


def is_transient(output: str) -> bool:
    """Whether the failure to start goes away by itself."""
    return any(text in output for text in TRANSIENT_TEXTS)


def explain_failure(output: str, where: Path, free: int, *, log: Path | None = None) -> LocalError:
    """`output` is the output of initdb or postgres, `free` the free space of the disk at that time, `log` the
    log file, if there is one.
    """
    if any(text in output for text in DISK_FULL_TEXTS):
        return not_enough_space(where, free, "Postgres ran out of space")
    reasons = REASON.findall(output)
    last = reasons[-1] if reasons else next(reversed(output.strip().splitlines()), "no message")
    return LocalError(
        f"Postgres could not start in {where}: {last.strip().rstrip('.')}.",
        f"Read {log}, fix the cause and start the node again."
        if log is not None
        else "Fix the cause and start the node again.",
    )


def explain_refusal(fields: dict[str, Any], where: Path, free: int, identity: Identity | None) -> LocalError:
    """`fields` is the JSON object of a refusal by the launcher."""
    user = identity.name if identity is not None else "the node's user"
    match fields["kind"]:
        case "closed" if identity is None:
            return LocalError(
                f"The user that runs the node may not execute {fields['directory']}.",
                "Install Palaver again as that user, or set database.url to a running Postgres.",
            )
        case "closed":
            return LocalError(
                f"The node runs as root and its Postgres as {user}, which may not enter "
                f"{fields['directory']}, and a private mount namespace is not permitted ({fields['why']}).",
                "Move the installation and data_dir to directories that all users may enter, "
                "run the node as an ordinary user, or set database.url to a running Postgres.",
            )
        case "identity":
            return LocalError(
                f"The node runs as root and may not start its Postgres as {user} ({fields['error']}).",
                "Grant it CAP_SETUID and CAP_SETGID, run the node as an ordinary user, or set database.url "
                "to a running Postgres.",
            )
        case "system" if fields.get("errno") in {errno.ENOSPC, errno.EDQUOT}:
            return not_enough_space(where, free, "Postgres ran out of space")
        case _:
            return explain_failure(str(fields.get("error", fields["kind"])), where, free)
