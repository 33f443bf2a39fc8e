"""Data directories with a Postgres cluster in them, for tests that start and stop servers of their own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from storage.embedded import EmbeddedPostgres
from tests.support.postgres import quick_directory

# What a cluster is made with decides nothing about these tests; what it is run with is the default, fsync
# included.
RUN_AS = "nobody"


@pytest.fixture(scope="session")
async def made_cluster() -> AsyncIterator[Path]:
    """A data directory in which a Postgres has run once and was stopped."""
    with scratch_directory() as data:
        postgres = EmbeddedPostgres(data, run_as=RUN_AS, minimum_free_bytes=0)
        await postgres.start()
        await postgres.stop()
        yield data


@pytest.fixture
def data_directory(made_cluster: Path) -> Iterator[Path]:
    """A copy of it, closed to all but the user of the tests; nothing is left running in it afterwards."""
    with scratch_directory() as data:
        subprocess.run(["cp", "-a", "--", f"{made_cluster}/postgres", f"{data}/postgres"], check=True)
        yield data


@pytest.fixture
def empty_directory() -> Iterator[Path]:
    with scratch_directory() as data:
        yield data


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Short enough for a Unix socket, which those of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="palaver-", dir=quick_directory()))
    try:
        yield path
    finally:
        for pid in processes_in(path / "postgres" / "18"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(path)


def processes_in(cluster: Path) -> list[int]:
    """The processes that work in this cluster's directory, whatever path they know it by."""
    try:
        wanted = cluster.stat()
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                there = (entry / "cwd").stat()
                if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
                    found.append(int(entry.name))
    return found


def owner() -> tuple[int, int]:
    """The user and group that a cluster of these tests belongs to."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam(RUN_AS)
    return entry.pw_uid, entry.pw_gid
