"""Data directories with a Postgres cluster, for tests that start and stop their own servers."""

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

# The settings of initdb do not matter for these tests; the server runs with the default settings, including
# fsync.
RUN_AS = "nobody"


@pytest.fixture(scope="session")
async def initialised_directory() -> AsyncIterator[Path]:
    """A data directory in which a Postgres has run once and was stopped."""
    with scratch_directory() as data:
        postgres = EmbeddedPostgres(data, run_as=RUN_AS, minimum_free_bytes=0)
        await postgres.start()
        await postgres.stop()
        yield data


@pytest.fixture
def data_directory(initialised_directory: Path) -> Iterator[Path]:
    """A copy of it, accessible only to the user of the tests. No process is left running in it afterwards."""
    with scratch_directory() as data:
        subprocess.run(["cp", "-a", "--", f"{initialised_directory}/postgres", f"{data}/postgres"], check=True)
        yield data


@pytest.fixture
def empty_directory() -> Iterator[Path]:
    with scratch_directory() as data:
        yield data


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory with a path short enough for a Unix socket, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="palaver-", dir=quick_directory()))
    try:
        yield path
    finally:
        for pid in processes_in(path / "postgres" / "18"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(path)


def processes_in(cluster: Path) -> list[int]:
    """The processes whose working directory is this cluster, by whatever path."""
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
    """The user and group that own a cluster of these tests."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam(RUN_AS)
    return entry.pw_uid, entry.pw_gid
