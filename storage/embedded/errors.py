"""Why Postgres did not start, in the words of what it printed, as one sentence and one piece of advice."""

import errno
import re
from pathlib import Path
from typing import Any

from storage.embedded.home import DISK_FULL_TEXTS, Identity, not_enough_space
from storage.errors import LocalError

# A predecessor that was killed leaves backends which take a moment to notice, and Postgres will not start
# beside them.
TRANSIENT_TEXTS = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists')
REASON = re.compile(r"(?:FATAL|PANIC|initdb: error|postgres: error):\s*(?P<reason>.+)")


def is_transient(output: str) -> bool:
    """Is what kept Postgres from starting a thing that goes away by itself?"""
    return any(text in output for text in TRANSIENT_TEXTS)


def explain_failure(output: str, where: Path, free: int, *, log: Path | None = None) -> LocalError:
    """`output` is what initdb or postgres said, `free` the room that its disk had at that moment.

    `log` is where more of it is to be read, if anywhere.
    """
    if any(text in output for text in DISK_FULL_TEXTS):
        return not_enough_space(where, free, "Postgres ran out of room")
    reasons = REASON.findall(output)
    last = reasons[-1] if reasons else next(reversed(output.strip().splitlines()), "it said nothing")
    return LocalError(
        f"Postgres could not start in {where}: {last.strip().rstrip('.')}.",
        f"Read {log}, put that right and start the node again."
        if log is not None
        else "Put that right and start the node again.",
    )


def explain_refusal(fields: dict[str, Any], where: Path, free: int, identity: Identity | None) -> LocalError:
    """`fields` is what the launcher refused with."""
    user = identity.name if identity is not None else "the node's user"
    match fields["kind"]:
        case "closed" if identity is None:
            return LocalError(
                f"{fields['directory']} may not be run by the user that the node runs as.",
                "Install Palaver again as that user, or set database.url to a Postgres that runs already.",
            )
        case "closed":
            return LocalError(
                f"The node runs as root and its Postgres as {user}, to whom {fields['directory']} is closed, "
                f"and this machine permits no private way around it ({fields['why']}).",
                "Move the installation and data_dir to directories that everybody may enter, "
                "run the node as an ordinary user, or set database.url to a Postgres that runs already.",
            )
        case "identity":
            return LocalError(
                f"The node runs as root and may not start its Postgres as {user} ({fields['error']}).",
                "Grant it CAP_SETUID and CAP_SETGID, run the node as an ordinary user, or set database.url "
                "to a Postgres that runs already.",
            )
        case "system" if fields.get("errno") in {errno.ENOSPC, errno.EDQUOT}:
            return not_enough_space(where, free, "Postgres ran out of room")
        case _:
            return explain_failure(str(fields.get("error", fields["kind"])), where, free)
