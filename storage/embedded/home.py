"""The directory of the embedded Postgres: its layout, owner, lock and free space.

Postgres refuses to run as root, so a node that runs as root chooses another user for it. A Postgres without
disk space stops, so a start checks the free space first.
"""

import contextlib
import fcntl
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.errors import LocalError

MAJOR = "18"
PORT = 5432
MAX_SOCKET_PATH_BYTES = 107  # bytes: sun_path has 108 on Linux, the last one is the terminator


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the embedded Postgres of the node with the data directory `data`."""

    data: Path

    @property
    def home(self) -> Path:
        """The directory of all files of Postgres. Only its user may enter, because local connections are
        trusted."""
        return self.data / "postgres"

    @property
    def cluster(self) -> Path:
        return self.home / MAJOR

    @property
    def unfinished(self) -> str:
        """The prefix of the names of clusters whose initialisation has not finished."""
        return f"{MAJOR}.new."

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"

    @property
    def socket(self) -> Path:
        return self.home / f".s.PGSQL.{PORT}"

    @property
    def socket_lock(self) -> Path:
        return self.home / f".s.PGSQL.{PORT}.lock"

    @property
    def postmaster_file(self) -> Path:
        return self.cluster / "postmaster.pid"


def check_path(layout: Layout) -> None:
    length = len(bytes(layout.socket))
    if length > MAX_SOCKET_PATH_BYTES:
        raise LocalError(
            f"The data directory {layout.data} is {length - MAX_SOCKET_PATH_BYTES} bytes too long "
            f"for the path of a Unix socket, which may have {MAX_SOCKET_PATH_BYTES}.",
            "Set data_dir to a shorter path.",
        )
    if any(letter in str(layout.data) for letter in ',"\n'):
        # Postgres and its programs parse the socket directory as a list with commas and quotes.
        raise LocalError(
            f"The data directory {str(layout.data)!r} has a comma, a quotation mark or a line break "
            "in its path, which Postgres cannot use.",
            "Set data_dir to a path without them.",
        )


def check_major_version(layout: Layout, names: set[str], version: str | None) -> None:
    """Raises LocalError if the data is of another major version. `names` are the entries of the home,
    `version` the content of the cluster's PG_VERSION, or None."""
    if version is None:
        others = sorted((name for name in names if name.isdigit() and name != MAJOR), key=int)
        found = others[-1] if others and MAJOR not in names else None
    else:
        found = version if version != MAJOR else None
    if found is not None:
        raise LocalError(
            f"The data in {layout.home} is of Postgres {found}, and this Palaver includes Postgres {MAJOR}.",
            f"Write a backup with a Palaver that includes Postgres {found}, move {layout.home} away, "
            "and restore the backup here.",
        )


UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
DISK_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")


def free_space(directory: Path) -> int:
    """Bytes that an ordinary user can still write there, without those reserved for root.

    The directory need not exist yet.
    """
    while not directory.exists():
        directory = directory.parent
    usage = os.statvfs(directory)
    return usage.f_bavail * usage.f_frsize


def check_free_space(directory: Path, minimum: int) -> None:
    free = free_space(directory)
    if free < minimum:
        raise not_enough_space(directory, free, f"Postgres needs {format_size(minimum)} there to start")


def not_enough_space(directory: Path, free: int, need: str) -> LocalError:
    return LocalError(
        f"Only {format_size(free)} are free on the disk of {directory}, and {need}.",
        "Free space on that disk, or set data_dir to a directory on another disk.",
    )


def format_size(count: int) -> str:
    size = float(count)
    for unit in UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {UNITS[-1]}"


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def choose_identity(run_as: str, euid: int) -> Identity | None:
    """The user as whom Postgres runs, or None for the node's own user. Only root can and must change the
    user."""
    if euid != 0:
        return None
    try:
        entry = pwd.getpwuid(int(run_as)) if run_as.isdigit() else pwd.getpwnam(run_as)
    except KeyError:
        raise LocalError(
            f"The node runs as root, Postgres may not run as root, and there is no user {run_as}.",
            "Set database.run_as to an existing user, or run the node as an ordinary user.",
        ) from None
    if entry.pw_uid == 0:
        raise LocalError(
            "The node runs as root, and Postgres may not run as root.",
            'Set database.run_as to another user, such as "nobody", or run the node as an ordinary user.',
        )
    return Identity(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def prepare_home(layout: Layout, identity: Identity | None) -> None:
    layout.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        layout.home.mkdir(mode=0o700)
    # Everything uses one handle, so that a directory that is replaced meanwhile is not affected.
    with open_directory(layout.home) as handle:
        found = os.fstat(handle)
        wanted = identity.uid if identity is not None else os.geteuid()
        if found.st_uid != wanted:
            if os.geteuid() != 0 or found.st_uid != 0 or any(layout.home.iterdir()):
                raise wrong_owner(layout, found.st_uid, wanted)
            os.fchown(handle, wanted, identity.gid if identity is not None else -1)
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(handle, 0o700)


def wrong_owner(layout: Layout, owner: int, wanted: int) -> LocalError:
    return LocalError(
        f"{layout.home} belongs to {name_of(owner)}, and Postgres would run as {name_of(wanted)}.",
        f"Change its owner as root: chown -R {name_of(wanted)} {layout.home}",
    )


def lock_home(layout: Layout) -> int:
    """Lock the directory against other nodes, until the returned handle is closed. The kernel closes the
    handle of a killed process."""
    handle = os.open(layout.home, FLAGS)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LocalError(
            f"Another node is using the data directory {layout.data}.",
            "Stop that node first, or set data_dir to another directory.",
        ) from None
    return handle


def grant_access(layout: Layout, identity: Identity) -> bool:
    """Allow the user of Postgres to traverse the data directory. False if that is not possible.

    This is the only change of a mode or group outside `DATA/postgres`. It is made only if a private mount
    namespace is not permitted, the directory belongs to the node's user, and its group has no rights in it.
    The new group gets only the right to traverse it.
    """
    with open_directory(layout.data) as handle:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o070:
            return False
        os.fchown(handle, -1, identity.gid)
        os.fchmod(handle, stat.S_IMODE(found.st_mode) | 0o010)
    return True


@contextlib.contextmanager
def open_directory(directory: Path) -> Iterator[int]:
    handle = os.open(directory, FLAGS)
    try:
        yield handle
    finally:
        os.close(handle)
