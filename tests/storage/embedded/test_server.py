"""The embedded Postgres as a whole: start, supervision, restart and stop."""

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from storage.database import connect_once
from storage.embedded import EmbeddedPostgres, State
from storage.embedded.errors import is_transient
from storage.embedded.home import Layout
from storage.errors import LocalError
from tests.storage.conftest import owner, processes_in
from tests.storage.embedded.nodes import Reports, end_of, kill, node, started


async def value(postgres: EmbeddedPostgres, sql: str) -> object:
    connection = await connect_once(postgres.address)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_a_first_start_creates_the_cluster(empty_directory: Path) -> None:
    """With UTF-8, locale C and checksums, accessible only by its socket and only to its user."""
    data = empty_directory
    async with started(data) as (postgres, reports):
        assert reports.names() == ["postgres_initialised", "postgres_started"]
        assert postgres.state is State.RUNNING
        assert postgres.pid == (await reports.until("postgres_started"))["pid"]
        assert await value(postgres, "SELECT current_user || '@' || current_database()") == "palaver@palaver"
        assert await value(postgres, "SHOW server_encoding") == "UTF8"
        assert await value(postgres, "SELECT datcollate FROM pg_database WHERE datname = 'palaver'") == "C"
        assert await value(postgres, "SHOW data_checksums") == "on"
        assert await value(postgres, "SHOW listen_addresses") == ""
        home = data / "postgres"
        found = home.stat()
        assert (found.st_uid, found.st_gid) == owner()
        assert stat.S_IMODE(found.st_mode) == 0o700
        assert (home / "18" / "PG_VERSION").read_text() == "18\n"
        assert (home / ".s.PGSQL.5432").is_socket()
        assert stat.S_IMODE((home / "postgres.log").stat().st_mode) == 0o600
    assert (postgres.state, postgres.pid) == (State.STOPPED, None)
    assert reports.names()[-1] == "postgres_stopped"
    assert processes_in(data / "postgres" / "18") == []


async def test_data_survive_a_stop(data_directory: Path) -> None:
    """The same object can be started again, without initdb."""
    async with started(data_directory) as (postgres, reports):
        await value(postgres, "CREATE TABLE kept AS SELECT 7 AS n")
        await postgres.stop()
        assert (await reports.until("postgres_stopped"))["signal"] == "SIGINT"
        await postgres.start()
        assert await value(postgres, "SELECT n FROM kept") == 7
        assert "postgres_initialised" not in reports.names()


async def test_a_killed_postgres_is_restarted(data_directory: Path) -> None:
    """With its data; reports and counters show it."""
    async with started(data_directory) as (postgres, reports):
        await value(postgres, "CREATE TABLE kept AS SELECT 7 AS n")
        first = postgres.pid
        kill(first)
        assert await reports.until("postgres_lost") == {"pid": first, "status": -signal.SIGKILL}
        waiting = await reports.until("postgres_restarting")
        assert waiting["failures"] == 1
        reports.seen.clear()
        again = await reports.until("postgres_started")
        assert again["pid"] == postgres.pid != first
        assert (postgres.state, postgres.restarts) == (State.RUNNING, 1)
        assert await value(postgres, "SELECT n FROM kept") == 7


async def test_a_start_waits_for_processes_of_a_killed_postgres(data_directory: Path) -> None:
    """Postgres refuses to start while they hold the shared memory."""
    layout = Layout(data_directory)
    async with started(data_directory) as (postgres, reports):
        assert postgres.pid is not None
        child = int(Path(f"/proc/{postgres.pid}/task/{postgres.pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGSTOP)
        kill(postgres.pid)
        while not (layout.log.exists() and is_transient(layout.log.read_text())):
            await asyncio.sleep(0.01)  # a file that another process writes
        assert postgres.state is State.RESTARTING
        os.kill(child, signal.SIGCONT)
        reports.seen.clear()
        await reports.until("postgres_started")
        assert await value(postgres, "SELECT 1") == 1


async def test_a_failed_restart_is_reported_and_retried(data_directory: Path) -> None:
    """If an operator fixes the cause meanwhile, the next attempt succeeds."""
    settings = data_directory / "postgres" / "18" / "postgresql.conf"
    good = settings.read_text()
    async with started(data_directory) as (postgres, reports):
        settings.write_text("nonsense = on\n")
        kill(postgres.pid)
        failed = await reports.until("postgres_failed")
        assert failed["problem"].startswith(f"Postgres could not start in {data_directory}/postgres: ")
        assert str(Layout(data_directory).log) in failed["advice"]
        reports.seen.clear()
        settings.write_text(good)
        await reports.until("postgres_started")


async def test_it_can_be_stopped_before_a_restart(data_directory: Path) -> None:
    async with started(data_directory) as (postgres, reports):
        kill(postgres.pid)
        await reports.until("postgres_restarting")
        await postgres.stop()
        assert postgres.state is State.STOPPED
        for pid in processes_in(data_directory / "postgres" / "18"):
            await end_of(pid)  # the processes of the killed Postgres
        assert "postgres_started" not in reports.names()[1:]


async def test_a_failed_start_is_explained_and_leaves_no_process(data_directory: Path) -> None:
    """The error has the message of Postgres and names the log, and the directory is not locked."""
    postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=0, settings={"shared_buffers": "lots"})
    with pytest.raises(LocalError) as refused:
        await postgres.start()
    assert refused.value.problem == (
        f'Postgres could not start in {data_directory}/postgres: invalid value for parameter "shared_buffers": "lots".'
    )
    assert refused.value.advice.startswith(f"Read {data_directory}/postgres/postgres.log")
    assert (postgres.state, postgres.pid) == (State.STOPPED, None)
    async with started(data_directory):
        pass


async def test_a_directory_that_cannot_be_created_is_explained(empty_directory: Path) -> None:
    """With the message of the system."""
    (empty_directory / "postgres").write_text("a file in its place")
    with pytest.raises(LocalError) as refused:
        await EmbeddedPostgres(empty_directory).start()
    assert refused.value.problem.startswith(f"Postgres could not start in {empty_directory}/postgres: ")
    assert "Not a directory" in refused.value.problem
    assert refused.value.advice == "Fix the cause and start the node again."


async def test_a_cancelled_start_leaves_no_process(data_directory: Path) -> None:
    """At whatever point it is cancelled; the directory is not locked."""
    for steps in (0, 1, 2, 5, 20, 100):
        task = asyncio.create_task(EmbeddedPostgres(data_directory, minimum_free_bytes=0).start())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert processes_in(data_directory / "postgres" / "18") == []
    async with started(data_directory):
        pass


async def test_a_directory_in_use_is_refused(data_directory: Path) -> None:
    """Two nodes on one directory would stop each other's Postgres."""
    async with node(data_directory) as other:
        await other.until("ready")
        postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=0)
        with pytest.raises(LocalError) as refused:
            await postgres.start()
        assert refused.value.problem == f"Another node is using the data directory {data_directory}."
        assert refused.value.advice == "Stop that node first, or set data_dir to another directory."
        assert (await other.stop())["state"] == "stopped"


async def test_too_little_space_is_refused(data_directory: Path) -> None:
    """Before Postgres is started, which would fail later."""
    postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=1 << 60)
    with pytest.raises(LocalError, match=r"Postgres needs 1048576\.0 TiB there to start"):
        await postgres.start()


async def test_a_cluster_of_another_major_version_is_refused(data_directory: Path) -> None:
    """It is not changed."""
    version = data_directory / "postgres" / "18" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(LocalError, match="is of Postgres 17, and this Palaver includes Postgres 18"):
        await EmbeddedPostgres(data_directory, minimum_free_bytes=0).start()
    assert version.read_text() == "17\n"


async def test_a_start_has_a_timeout(data_directory: Path) -> None:
    """A Postgres that runs and never accepts a connection is stopped and reported."""
    postgres = EmbeddedPostgres(
        data_directory, minimum_free_bytes=0, start_timeout=0.3, stop_timeout=0.3, settings={"pre_auth_delay": "60"}
    )
    with pytest.raises(LocalError) as refused:
        await postgres.start()
    assert refused.value.problem == (
        f"Postgres in {data_directory}/postgres accepted no connection within 0.3 seconds."
    )
    assert processes_in(data_directory / "postgres" / "18") == []


async def test_a_server_that_refuses_the_node_is_an_error(data_directory: Path) -> None:
    """Its rules have been edited; waiting would not help."""
    (data_directory / "postgres" / "18" / "pg_hba.conf").write_text("local all all reject\n")
    with pytest.raises(LocalError, match="does not let the role palaver log in"):
        await EmbeddedPostgres(data_directory, minimum_free_bytes=0).start()
    assert processes_in(data_directory / "postgres" / "18") == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_it_works_with_both_event_loops(data_directory: Path, loop: str) -> None:
    """Start, restart and stop in a separate process."""
    async with node(data_directory, loop=loop) as other:
        ready = await other.until("ready")
        os.kill(ready["pid"], signal.SIGKILL)
        await other.until("postgres_started")
        assert (await other.stop())["state"] == "stopped"
    assert processes_in(data_directory / "postgres" / "18") == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_killed_nodes_leave_no_postgres(data_directory: Path, loop: str) -> None:
    """Also a node killed by SIGKILL leaves no orphan, and the next start finds the data."""
    async with node(data_directory, loop=loop) as other:
        ready = await other.until("ready")
        await other.kill()
    await end_of(ready["pid"])
    async with started(data_directory) as (_, reports):
        assert reports.names() == ["postgres_started"]


async def test_a_start_right_after_a_kill(data_directory: Path) -> None:
    """It adopts the running server, or waits for the stopping one."""
    for _ in range(3):
        async with node(data_directory) as other:
            await other.until("ready")
            await other.kill()
        async with node(data_directory) as next_one:
            await next_one.until("ready")
            assert (await next_one.stop())["state"] == "stopped"
    assert processes_in(data_directory / "postgres" / "18") == []


async def test_the_log_is_bounded_while_it_runs(data_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages never fill the disk."""
    monkeypatch.setattr("storage.embedded.server.LOG_INTERVAL", 0.01)
    monkeypatch.setattr("storage.embedded.log.truncate.__defaults__", (0,))
    async with started(data_directory) as (_, reports):
        await reports.until("postgres_log_truncated")


async def test_stopping_twice_or_without_a_start_does_nothing(data_directory: Path) -> None:
    """Clean-up code need not know how far the start got."""
    reports = Reports()
    postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=0, report=reports)
    await postgres.stop()
    await postgres.start()
    await postgres.stop()
    await postgres.stop()
    assert reports.names() == ["postgres_started", "postgres_stopped"]
