"""Which user the private Postgres runs as. Postgres refuses to be root; a node that is root picks another."""

import os
import pwd
from dataclasses import dataclass

from storage.errors import LocalError


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def choose(run_as: str, euid: int) -> Identity | None:
    """The user to become, None when the node's own user will do: only root can and must become another."""
    if euid != 0:
        return None
    try:
        entry = pwd.getpwuid(int(run_as)) if run_as.isdigit() else pwd.getpwnam(run_as)
    except KeyError:
        raise LocalError(
            f"The node runs as root, Postgres may not, and this machine has no user called {run_as}.",
            "Set database.run_as to a user that exists, or run the node as an ordinary user.",
        ) from None
    if entry.pw_uid == 0:
        raise LocalError(
            "The node runs as root, and Postgres may not run as root.",
            'Set database.run_as to another user, such as "nobody", or run the node as an ordinary user.',
        )
    return Identity(
        entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    )


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
