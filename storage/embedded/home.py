"""The directory of the private Postgres: made, owned by the right user, and held by one node at a time."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from storage.embedded.identity import Identity, name_of
from storage.embedded.layout import Layout
from storage.errors import LocalError

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def prepare(layout: Layout, identity: Identity | None) -> None:
    layout.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        layout.home.mkdir(mode=0o700)
    # Everything goes through one handle, so that a name that is exchanged meanwhile cannot lead elsewhere.
    with opened(layout.home) as handle:
        found = os.fstat(handle)
        wanted = identity.uid if identity is not None else os.geteuid()
        if found.st_uid != wanted:
            if os.geteuid() != 0 or found.st_uid != 0 or any(layout.home.iterdir()):
                raise foreign(layout, found.st_uid, wanted)
            os.fchown(handle, wanted, identity.gid if identity is not None else -1)
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(handle, 0o700)


def foreign(layout: Layout, owner: int, wanted: int) -> LocalError:
    return LocalError(
        f"{layout.home} belongs to {name_of(owner)}, and Postgres would run as {name_of(wanted)}.",
        f"Hand the directory over as root: chown -R {name_of(wanted)} {layout.home}",
    )


def hold(layout: Layout) -> int:
    """A handle that keeps every other node out until it is closed; the kernel closes it for a killed one."""
    handle = os.open(layout.home, FLAGS)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LocalError(
            f"Another node is using the data directory {layout.data}.",
            "Stop that node first, or give this one a data_dir of its own.",
        ) from None
    return handle


def open_to(layout: Layout, identity: Identity) -> bool:
    """Let the user of the child pass through the data directory, and say whether that was possible.

    The one thing outside `DATA/postgres` whose mode and group are ever changed, and only where the machine
    permits no private namespace: the directory is the node's own, its group had no rights in it, and to pass
    through is all that the new group may do.
    """
    with opened(layout.data) as handle:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o070:
            return False
        os.fchown(handle, -1, identity.gid)
        os.fchmod(handle, stat.S_IMODE(found.st_mode) | 0o010)
    return True


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[int]:
    handle = os.open(directory, FLAGS)
    try:
        yield handle
    finally:
        os.close(handle)
