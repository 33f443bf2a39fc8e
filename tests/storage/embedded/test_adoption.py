"""A Postgres that an earlier node left behind: taken over when it runs, cleared away when it does not."""

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
    """A running Postgres that nobody supervises, as after the death of a node that it did not hear of."""
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


async def test_one_that_runs_is_taken_over(data_directory: Path) -> None:
    """Rule: no second one is started, and from then on it is supervised like our own."""
    async with left_behind(data_directory) as left:
        async with started(data_directory) as (postgres, reports):
            assert reports.names() == ["postgres_found", "postgres_adopted"]
            assert postgres.pid == left.pid
            kill(left.pid)
            assert await reports.until("postgres_lost") == {"pid": left.pid, "status": None}
            await reports.until("postgres_started")
            assert (postgres.state, postgres.restarts) == (State.RUNNING, 1)
        assert reports.names()[-1] == "postgres_stopped"


async def test_it_is_stopped_with_the_node_that_took_it_over(data_directory: Path) -> None:
    """Whoever supervises it ends it."""
    async with left_behind(data_directory) as left:
        async with started(data_directory):
            pass
        assert await left.ended(0)


async def test_a_node_with_less_power_takes_it_over_too(data_directory: Path) -> None:
    """A root without CAP_SYS_PTRACE, as in a container, sees the command line and not the directory."""
    async with left_behind(data_directory) as left:
        async with node(data_directory, *without("sys_ptrace")) as other:
            ready = await other.until("ready", "refused")
            assert ready["event"] == "ready", ready
            assert ready["pid"] == left.pid
            await other.stop()
        assert await left.ended(0)


async def test_one_that_does_not_answer_is_replaced(data_directory: Path) -> None:
    """A Postgres that hangs is ended by force when its time is over, and its data are recovered."""
    async with left_behind(data_directory) as left:
        left.send(signal.SIGSTOP)
        async with started(data_directory, start_timeout=0.2, stop_timeout=0.2) as (postgres, reports):
            assert reports.names() == ["postgres_found", "postgres_started"]
            assert postgres.pid != left.pid
        assert await left.ended(0)


async def test_one_that_is_ending_is_waited_for(data_directory: Path) -> None:
    """After the death of a node its Postgres shuts down, and takes no connections any more."""
    async with left_behind(data_directory) as left:
        address = DatabaseAddress.at_socket(Layout(data_directory).home, PORT, "palaver", "palaver")
        guest = await connect_once(address)
        # A smart shutdown lets nobody in and waits for those who are there.
        left.send(signal.SIGTERM)
        start = asyncio.create_task(begin(data_directory))
        await guest.fetchval("SELECT 1")
        await guest.close()
        assert await start == ["postgres_found", "postgres_started"]


async def begin(data: Path) -> list[str]:
    async with started(data) as (_, reports):
        return reports.names()


async def test_the_number_of_an_unrelated_process_fools_nobody(data_directory: Path) -> None:
    """Rule: its number in postmaster.pid does not make a process a Postgres; it is left alone."""
    layout = Layout(data_directory)
    user, group = owner()
    # Of the same user: Postgres by itself would take it for its predecessor and refuse to start.
    options = {"user": user, "group": group, "extra_groups": []} if os.geteuid() == 0 else {}
    stranger = subprocess.Popen(["/bin/sleep", "600"], **options)
    try:
        text = f"{stranger.pid}\n{layout.cluster}\n1795004041\n5432\n{layout.home}\n\n  1 2\nready\n"
        for file in (layout.postmaster_file, layout.socket_lock):
            file.write_text(text)
            os.chown(file, user, group)
        async with started(data_directory) as (postgres, reports):
            assert reports.names() == ["postgres_started"]
            assert postgres.pid != stranger.pid
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_the_file_of_a_dead_one_is_no_obstacle(data_directory: Path) -> None:
    """After a power cut the number in it belongs to nobody."""
    layout = Layout(data_directory)
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    for content in (f"{gone.pid}\n{layout.cluster}\n", "", "nonsense\n", "99999999999999999999\n"):
        layout.postmaster_file.write_text(content)
        os.chown(layout.postmaster_file, *owner())
        async with started(data_directory) as (_, reports):
            assert reports.names() == ["postgres_started"]
    assert await find_running(layout) is None


async def test_a_dead_one_that_nobody_waited_for_is_not_taken_over(data_directory: Path) -> None:
    """A zombie has its number still; it accepts no connection, and Postgres by itself would wait for it."""
    layout = Layout(data_directory)
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    layout.postmaster_file.write_text(f"{zombie.pid}\n{layout.cluster}\n")
    try:
        assert await find_running(layout) is None
        assert not layout.postmaster_file.exists()
    finally:
        zombie.wait()


async def test_a_single_user_postgres_is_not_taken_over(data_directory: Path) -> None:
    """Somebody repairs the cluster by hand: its file stays, so that Postgres refuses to start beside it."""
    layout = Layout(data_directory)
    async with left_behind(data_directory) as left:
        text = layout.postmaster_file.read_text()
        layout.postmaster_file.write_text("-" + text)
        assert await find_running(layout) is None
        assert layout.postmaster_file.read_text() == f"-{text}"
        layout.postmaster_file.write_text(text)
        assert not await left.ended(0)


async def test_what_is_seen_of_a_process() -> None:
    """Its command and where it works; of one that is gone, nothing."""
    sight = inspect_process(os.getpid())
    here = Path.cwd().stat()
    assert sight.directory == (here.st_dev, here.st_ino)
    assert sight.command
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    assert inspect_process(gone.pid).command == ()
