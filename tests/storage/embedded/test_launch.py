"""The Postgres programs run by root and by an ordinary user, with and without the right to use namespaces."""

import asyncio
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from storage.embedded import EmbeddedPostgres
from storage.embedded.home import Layout, choose_identity, prepare_home
from storage.embedded.initialise import server_arguments
from storage.embedded.launch import LAUNCHER, Programs, package_directory, python_environment, spawn_launcher
from storage.errors import LocalError
from tests.storage.conftest import RUN_AS, owner, processes_in
from tests.storage.embedded.nodes import as_ordinary_user, end_of, namespaces_permitted, node, started, without


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def is_closed_to_postgres(path: Path) -> bool:
    """Whether the user of Postgres cannot reach the path, checked as that user."""
    user, group = owner()
    return (
        subprocess.run(
            ["/bin/ls", str(path)], check=False, user=user, group=group, extra_groups=[], capture_output=True
        ).returncode
        != 0
    )


async def test_as_root_with_inaccessible_directories(empty_directory: Path) -> None:
    """Postgres runs as its own user on data that this user cannot reach otherwise, and nothing on the machine
    is changed. An ordinary user can reach its own directories."""
    data = empty_directory / "closed" / "data"
    (empty_directory / "closed").mkdir(mode=0o700)
    mounts = Path("/proc/self/mounts").read_text()
    if os.geteuid() == 0 and not namespaces_permitted():
        with pytest.raises(LocalError, match=", and a private mount namespace is not permitted"):
            await EmbeddedPostgres(data, minimum_free_bytes=0).start()
        return
    async with started(data) as (postgres, reports):
        assert reports.names() == ["postgres_initialised", "postgres_started"]
        status = Path(f"/proc/{postgres.pid}/status").read_text()
        assert f"Uid:\t{owner()[0]}\t" in status
    assert [mode(path) for path in (empty_directory, empty_directory / "closed", data)] == [0o700] * 3
    assert {path.stat().st_uid for path in (empty_directory, data)} == {os.geteuid()}
    assert Path("/proc/self/mounts").read_text() == mounts


async def test_as_an_ordinary_user(empty_directory: Path) -> None:
    """In a directory that it owns."""
    data = empty_directory / "own"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        empty_directory.chmod(0o711)
        os.chown(data, *owner())
    async with node(data, *as_ordinary_user()) as ordinary:
        ready = await ordinary.until("ready", "refused")
        assert ready["event"] == "ready", ready
        assert ready["uid"] == owner()[0]
        await ordinary.stop()
    assert (data / "postgres").stat().st_uid == owner()[0]
    assert processes_in(data / "postgres" / "18") == []


async def test_an_ordinary_user_ignores_run_as(data_directory: Path) -> None:
    """The setting is for root, which accepts any user, in this test by number."""
    if os.geteuid() == 0:
        shutil.rmtree(data_directory / "postgres")
        other = next(entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid not in {0, owner()[0]})
        async with started(data_directory, run_as=str(other)) as (postgres, _):
            assert f"Uid:\t{other}\t" in Path(f"/proc/{postgres.pid}/status").read_text()
    else:
        async with started(data_directory, run_as="no such user") as (postgres, _):
            assert f"Uid:\t{os.geteuid()}\t" in Path(f"/proc/{postgres.pid}/status").read_text()


async def test_without_namespaces_the_data_directory_becomes_traversable(data_directory: Path) -> None:
    """Only the data directory itself is changed; all parents must already be accessible."""
    before = mode(data_directory)
    async with node(data_directory, *without("sys_admin")) as weak:
        failure = await weak.until("ready", "refused")
        if os.geteuid() == 0 and is_closed_to_postgres(package_directory()):
            assert failure["event"] == "refused"
            return
        assert failure["event"] == "ready", failure
        await weak.stop()
    if os.geteuid() == 0:
        assert mode(data_directory) == 0o710
        assert data_directory.stat().st_gid == owner()[1]
    else:
        assert mode(data_directory) == before


async def test_without_namespaces_an_inaccessible_directory_is_refused(data_directory: Path) -> None:
    """The error names the first directory that is not accessible, and what to do."""
    data = data_directory / "data"
    data.mkdir(mode=0o700)
    (data_directory / "postgres").rename(data / "postgres")
    async with node(data, *without("sys_admin")) as weak:
        failure = await weak.until("ready", "refused")
        if os.geteuid() != 0:
            assert failure["event"] == "ready"
            await weak.stop()
            return
    assert failure["problem"].startswith(f"The node runs as root and its Postgres as {RUN_AS}, which may not enter /")
    if not is_closed_to_postgres(package_directory()):
        assert f"which may not enter {data_directory}" in failure["problem"]
    assert "unshare: Operation not permitted" in failure["problem"]
    assert failure["advice"].startswith("Move the installation and data_dir")
    assert mode(data) == mode(data_directory) == 0o700


async def test_a_disk_that_fills_up_is_explained(empty_directory: Path) -> None:
    """With the free space and the directory; on a small file system of the test, if it may be mounted."""
    if namespaces_permitted():
        script = 'mount -t tmpfs -o size=20m,mode=0700 small "$0" && exec "$@"'
        prefix = ("unshare", "--mount", "sh", "-c", script, str(empty_directory))
        options = {}
    else:
        prefix, options = (), {"minimum_free_bytes": 1 << 60}
    async with node(empty_directory, *prefix, **options) as full:
        failure = await full.until("ready", "refused")
    assert failure["event"] == "refused"
    assert failure["problem"].startswith("Only ")
    assert f" are free on the disk of {empty_directory}/postgres, and Postgres " in failure["problem"]
    assert failure["advice"].startswith("Free space on that disk")


async def test_a_cancelled_start_leaves_no_process(empty_directory: Path) -> None:
    """The launcher is killed with all its children."""
    layout = Layout(empty_directory)
    identity = choose_identity(RUN_AS, os.geteuid())
    prepare_home(layout, identity)
    task = asyncio.create_task(Programs(layout, identity).initdb(["--pgdata", "@home@/18", "--username", "palaver"]))
    while not layout.cluster.joinpath("base").exists():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The children of initdb end shortly after it, and complete nothing.
    for pid in processes_in(layout.cluster):
        await end_of(pid)
    assert not (layout.cluster / "base" / "5").exists()


async def test_a_program_that_ends_at_once_is_not_ready(data_directory: Path) -> None:
    """Whether its end is noticed at once or a moment later."""
    layout = Layout(data_directory)
    identity = choose_identity(RUN_AS, os.geteuid())
    process = await Programs(layout, identity).postgres([*server_arguments(str(layout.home), 100, {}), "--nonsense"])
    try:
        assert await process.ended(60)
        assert await process.status() == 1
    finally:
        await process.close()
    assert "nonsense" in layout.log.read_text()


async def test_the_launcher_is_an_executable_script() -> None:
    """With an invalid argument it fails and does not hang."""
    assert LAUNCHER.is_file()
    child, output = await spawn_launcher("{}")
    assert await child.wait() == 1
    assert "KeyError" in output


def test_only_the_variables_that_python_needs_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some Pythons need them to find their shared library."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/python/lib")
    monkeypatch.setenv("SECRET", "s3cret")
    assert python_environment() == {"LD_LIBRARY_PATH": "/opt/python/lib"}
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert python_environment() == {}
