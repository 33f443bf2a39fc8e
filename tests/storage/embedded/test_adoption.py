"""A Postgres that an earlier node left behind is adopted if it runs, and its files are removed if it does
not."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from storage.connect import DatabaseAddress
from storage.database import connect_once
from storage.embedded import State
from storage.embedded.adoption import find_running, inspect_process
from storage.embedded.home import PORT, Layout, choose_identity, prepare_home
from storage.embedded.initialise import server_arguments
from storage.embedded.launch import Process, Programs
from storage.embedded.server import wait_until_accepting
from tests.storage.conftest import RUN_AS, owner
from tests.storage.embedded.nodes import kill, node, started, without


@asynccontextmanager
async def left_behind(data: Path) -> AsyncIterator[Process]:
    """A running Postgres without supervisor, as after the death of a node that it did not notice."""
    layout = Layout(data)
    identity = choose_identity(RUN_AS, os.geteuid())
    prepare_home(layout, identity)
    process = await Programs(layout, identity).postgres(server_arguments(str(layout.home), 100, {}))
    try:
        address = DatabaseAddress.at_socket(layout.home, PORT, "palaver", "palaver")
        assert await wait_until_accepting(address, process, within=60)
        yield process
    finally:
        process.send(signal.SIGKILL)
        await process.ended()
        await process.close()


async def test_a_running_postgres_is_adopted(data_directory: Path) -> None:
    """No second one is started, and it is supervised like a child."""
    async with left_behind(data_directory) as left:
        async with started(data_directory) as (postgres, reports):
            assert reports.names() == ["postgres_found", "postgres_adopted"]
            assert postgres.pid == left.pid
            kill(left.pid)
            assert await reports.until("postgres_lost") == {"pid": left.pid, "status": None}
            await reports.until("postgres_started")
            assert (postgres.state, postgres.restarts) == (State.RUNNING, 1)
        assert reports.names()[-1] == "postgres_stopped"


async def test_an_adopted_postgres_is_stopped_with_the_node(data_directory: Path) -> None:
    async with left_behind(data_directory) as left:
        async with started(data_directory):
            pass
        assert await left.ended(0)


async def test_a_node_with_fewer_capabilities_adopts_it(data_directory: Path) -> None:
    """Root without CAP_SYS_PTRACE, as in a container, sees the command line but not the working directory."""
    async with left_behind(data_directory) as left:
        async with node(data_directory, *without("sys_ptrace")) as other:
            ready = await other.until("ready", "refused")
            assert ready["event"] == "ready", ready
            assert ready["pid"] == left.pid
            await other.stop()
        assert await left.ended(0)


async def test_a_hanging_postgres_is_replaced(data_directory: Path) -> None:
    """It is killed after the timeout, and its data are recovered."""
    async with left_behind(data_directory) as left:
        left.send(signal.SIGSTOP)
        async with started(data_directory, start_timeout=0.2, stop_timeout=0.2) as (postgres, reports):
            assert reports.names() == ["postgres_found", "postgres_started"]
            assert postgres.pid != left.pid
        assert await left.ended(0)


async def test_a_node_waits_for_a_stopping_postgres(data_directory: Path) -> None:
    """After the death of a node its Postgres shuts down, and accepts no connections any more."""
    async with left_behind(data_directory) as left:
        address = DatabaseAddress.at_socket(Layout(data_directory).home, PORT, "palaver", "palaver")
        guest = await connect_once(address)
        # A smart shutdown refuses new connections and waits for the existing ones.
        left.send(signal.SIGTERM)
        start = asyncio.create_task(begin(data_directory))
        await guest.fetchval("SELECT 1")
        await guest.close()
        assert await start == ["postgres_found", "postgres_started"]


async def begin(data: Path) -> list[str]:
    async with started(data) as (_, reports):
        return reports.names()


async def test_an_unrelated_process_is_not_adopted(data_directory: Path) -> None:
    """Its process id in postmaster.pid does not make it a Postgres; the process is left alone."""
    layout = Layout(data_directory)
    user, group = owner()
    # A process of the same user: Postgres itself would take it for its predecessor and refuse to start.
    options = {"user": user, "group": group, "extra_groups": []} if os.geteuid() == 0 else {}
    unrelated = subprocess.Popen(["/bin/sleep", "600"], **options)
    try:
        text = f"{unrelated.pid}\n{layout.cluster}\n1795004041\n5432\n{layout.home}\n\n  1 2\nready\n"
        for file in (layout.postmaster_file, layout.socket_lock):
            file.write_text(text)
            os.chown(file, user, group)
        async with started(data_directory) as (postgres, reports):
            assert reports.names() == ["postgres_started"]
            assert postgres.pid != unrelated.pid
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()


async def test_a_stale_pid_file_is_removed(data_directory: Path) -> None:
    """After a power failure no process has the id in it."""
    layout = Layout(data_directory)
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    for content in (f"{gone.pid}\n{layout.cluster}\n", "", "nonsense\n", "99999999999999999999\n"):
        layout.postmaster_file.write_text(content)
        os.chown(layout.postmaster_file, *owner())
        async with started(data_directory) as (_, reports):
            assert reports.names() == ["postgres_started"]
    assert await find_running(layout) is None


async def test_a_zombie_is_not_adopted(data_directory: Path) -> None:
    """It still has its process id, but accepts no connection; Postgres itself would wait for it."""
    layout = Layout(data_directory)
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    layout.postmaster_file.write_text(f"{zombie.pid}\n{layout.cluster}\n")
    try:
        assert await find_running(layout) is None
        assert not layout.postmaster_file.exists()
    finally:
        zombie.wait()


async def test_a_single_user_postgres_is_not_adopted(data_directory: Path) -> None:
    """An operator repairs the cluster: the pid file stays, so that Postgres refuses to start."""
    layout = Layout(data_directory)
    async with left_behind(data_directory) as left:
        text = layout.postmaster_file.read_text()
        layout.postmaster_file.write_text("-" + text)
        assert await find_running(layout) is None
        assert layout.postmaster_file.read_text() == f"-{text}"
        layout.postmaster_file.write_text(text)
        assert not await left.ended(0)


async def test_process_info() -> None:
    """Command line and working directory; empty for a process that has ended."""
    sight = inspect_process(os.getpid())
    here = Path.cwd().stat()
    assert sight.directory == (here.st_dev, here.st_ino)
    assert sight.command
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    assert inspect_process(gone.pid).command == ()
