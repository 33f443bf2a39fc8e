"""Where the private Postgres keeps what, and which directories it cannot work in."""

from dataclasses import dataclass
from pathlib import Path

from storage.errors import LocalError

MAJOR = "18"
PORT = 5432
LONGEST_SOCKET_PATH = 107  # bytes: sun_path has 108 on Linux, the last one is the terminator


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of the private Postgres of the node whose data directory is `data`."""

    data: Path

    @property
    def home(self) -> Path:
        """Everything of Postgres' is in here; nobody else may enter, which is what confines local trust."""
        return self.data / "postgres"

    @property
    def cluster(self) -> Path:
        return self.home / MAJOR

    @property
    def unfinished(self) -> str:
        """How the names of clusters begin that are being made, or never were finished."""
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


def refuse_unusable_path(layout: Layout) -> None:
    length = len(bytes(layout.socket))
    if length > LONGEST_SOCKET_PATH:
        raise LocalError(
            f"The data directory {layout.data} is {length - LONGEST_SOCKET_PATH} bytes too deep "
            f"for a Unix socket, whose path may have {LONGEST_SOCKET_PATH}.",
            "Set data_dir to a shorter path.",
        )
    if any(letter in str(layout.data) for letter in ',"\n'):
        # Postgres and its programs read directories of sockets as a list with commas and quotes.
        raise LocalError(
            f"The data directory {str(layout.data)!r} has a comma, a quotation mark or a line break "
            "in its path, which Postgres cannot use.",
            "Set data_dir to a path without them.",
        )


def refuse_other_major(layout: Layout, names: set[str], version: str | None) -> None:
    """`names` are the entries of the home, `version` what the cluster's PG_VERSION says, None without one."""
    if version is None:
        others = sorted((name for name in names if name.isdigit() and name != MAJOR), key=int)
        found = others[-1] if others and MAJOR not in names else None
    else:
        found = version if version != MAJOR else None
    if found is not None:
        raise LocalError(
            f"The data in {layout.home} was made by Postgres {found}, and this node brings Postgres {MAJOR}.",
            f"Write a backup with the Palaver that brings Postgres {found}, move {layout.home} away, "
            "and restore the backup here.",
        )
