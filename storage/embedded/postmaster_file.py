"""`postmaster.pid`, in which a running Postgres says who it is, and whether to believe it."""

from dataclasses import dataclass
from enum import StrEnum

from storage.embedded.settings import MARK

HIGHEST_PID = 1 << 22  # Linux counts no further


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """The first line; what else the file says is seen from inside the server's own mount namespace."""

    pid: int
    single_user: bool


def parse(text: str) -> PostmasterFile | None:
    """None for a file that holds no process number, which is what a crash while writing it leaves."""
    first = text.partition("\n")[0].strip()
    digits = first.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) <= HIGHEST_PID:
        return None
    # A single-user Postgres writes its number negated.
    return PostmasterFile(int(digits), first.startswith("-"))


class Claim(StrEnum):
    """What a process is to the directory whose postmaster.pid names it."""

    OURS = "ours"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a process from outside.

    `directory` identifies its working directory by device and inode, None where the machine does not let us
    look: a root without CAP_SYS_PTRACE, as in most containers, may not see that of another user's process.
    """

    command: tuple[str, ...]
    directory: tuple[int, int] | None


def judge(sight: Sight, cluster: tuple[int, int], home: str) -> Claim:
    """Is it the Postgres of this very cluster, or an unrelated process that got the number of a dead one?

    A Postgres works in its cluster's directory, which is the same inode in every mount namespace. The time of
    its start decides nothing: the clock of a machine that has just booted may jump by years.
    """
    if not sight.command or sight.command[0].rpartition("/")[2] != "postgres":
        return Claim.UNRELATED
    if sight.directory is not None:
        return Claim.OURS if sight.directory == cluster else Claim.UNRELATED
    return Claim.OURS if f"{MARK}={home}" in sight.command else Claim.UNRELATED
