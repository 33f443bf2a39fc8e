"""The embedded Postgres of a node: started or adopted, restarted when it dies, and stopped with the node.

Events are reported to `report(event, fields)`; the fields contain no secrets:

- `postgres_initialised`: a new cluster was created
- `postgres_found`: a server of an earlier node process is still running, and the node waits for it; `pid`
- `postgres_started`, `postgres_adopted`: it accepts connections; `pid`, `seconds`
- `postgres_lost`: it ended by itself; `pid`, `status` (None for an adopted server)
- `postgres_restarting`: `seconds` until the next attempt, number of consecutive `failures`
- `postgres_failed`: that attempt failed; `problem`, `advice`
- `postgres_stopped`: stopped by the node; `signal`
- `postgres_log_truncated`

`Supervision` is the state machine that decides when the server is started and restarted. It does no I/O.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import asyncpg

from storage.concurrency import BackgroundTasks
from storage.connect import DatabaseAddress, explain_connection_error
from storage.embedded import home, log
from storage.embedded.adoption import find_running
from storage.embedded.errors import explain_failure, is_transient
from storage.embedded.home import (
    PORT,
    Identity,
    Layout,
    check_free_space,
    check_major_version,
    check_path,
    choose_identity,
    free_space,
)
from storage.embedded.initialise import initialise, is_initialised, server_arguments
from storage.embedded.launch import Process, Programs, stop_postmaster
from storage.errors import LocalError
from storage.statements import load

FIRST_RESTART_DELAY = 0.2
MAX_RESTART_DELAY = 10.0
STABLE_AFTER = 30.0
"""Seconds of running after which a failure does not count as consecutive and the next restart is not
delayed."""


class State(StrEnum):
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"


class Input(StrEnum):
    START = "start"  # the node starts
    READY = "ready"  # the server accepts connections
    LOST = "lost"  # the server ended, or could not be started
    DUE = "due"  # the deadline is reached
    STOP = "stop"  # the node stops


class Effect(StrEnum):
    LAUNCH = "launch"
    WAIT = "wait"  # until deadline()
    TERMINATE = "terminate"


TRANSITIONS: dict[tuple[State, Input], tuple[State, tuple[Effect, ...]]] = {
    (State.STOPPED, Input.START): (State.STARTING, (Effect.LAUNCH,)),
    (State.STARTING, Input.READY): (State.RUNNING, ()),
    # A server that cannot start at all needs an operator; retrying would hide the reason.
    (State.STARTING, Input.LOST): (State.STOPPED, (Effect.TERMINATE,)),
    (State.STARTING, Input.STOP): (State.STOPPED, (Effect.TERMINATE,)),
    (State.RUNNING, Input.LOST): (State.RESTARTING, (Effect.WAIT,)),
    (State.RUNNING, Input.STOP): (State.STOPPED, (Effect.TERMINATE,)),
    (State.RESTARTING, Input.DUE): (State.RESTARTING, (Effect.LAUNCH,)),
    (State.RESTARTING, Input.READY): (State.RUNNING, ()),
    (State.RESTARTING, Input.LOST): (State.RESTARTING, (Effect.WAIT,)),
    (State.RESTARTING, Input.STOP): (State.STOPPED, (Effect.TERMINATE,)),
}


class Supervision:
    def __init__(self) -> None:
        self.state = State.STOPPED
        self.restarts = 0
        self.failures = 0
        self._ready_since: float | None = None
        self._deadline: float | None = None

    def receive(self, received: Input, now: float) -> tuple[Effect, ...]:
        """Return the effects of the input. An input without a transition for the state comes too late and is
        ignored."""
        before = self.state
        self.state, effects = TRANSITIONS.get((before, received), (before, ()))
        if self.state is State.RUNNING and before is not State.RUNNING:
            self._ready_since = now
            self.restarts += before is State.RESTARTING
        if Effect.LAUNCH in effects or self.state is State.STOPPED:
            self._deadline = None
        if Effect.WAIT in effects:
            if self._ready_since is not None and now - self._ready_since >= STABLE_AFTER:
                self.failures = 0
            self._ready_since = None
            self._deadline = now + min(FIRST_RESTART_DELAY * 2**self.failures, MAX_RESTART_DELAY)
            self.failures += 1
        if self.state is State.STOPPED:
            self.failures = 0
            self._ready_since = None
        return effects

    def deadline(self) -> float | None:
        return self._deadline


SQL = load("storage.embedded", "server.sql")

POLL_INTERVAL = 0.01
ATTEMPT_TIMEOUT = 5.0
"""Seconds for one attempt to connect: a server that accepts a connection but does not respond is not
ready."""


async def wait_until_accepting(address: DatabaseAddress, process: Process, within: float) -> bool:
    """Wait until the database can be used. False if the process ends or the time is over before that.

    Raises LocalError if the server refuses this node.
    """
    deadline = time.monotonic() + within
    while not await process.ended(POLL_INTERVAL):
        try:
            await try_connection(address, min(ATTEMPT_TIMEOUT, max(within, POLL_INTERVAL)))
        except (OSError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError):
            # There is no socket yet, or the server is starting, recovering or stopping.
            if time.monotonic() >= deadline:
                return False
        except asyncpg.TooManyConnectionsError:
            # The server is serving other connections, so it is ready.
            return True
        except asyncpg.PostgresError as error:
            raise explain_connection_error(error, address) or error from error
        else:
            return True
    return False


async def try_connection(address: DatabaseAddress, within: float) -> None:
    try:
        connection = await asyncpg.connect(address.url, timeout=within)
    except asyncpg.InvalidCatalogNameError:
        # Created here rather than after initdb, so that a kill between the two does no harm.
        connection = await asyncpg.connect(address.with_database("postgres").url, timeout=within)
        try:
            await connection.execute(SQL.create_database)
        finally:
            await connection.close()
    else:
        await connection.close()


Report = Callable[[str, dict[str, object]], None]

MINIMUM_FREE_BYTES = 256 << 20
"""A new cluster has 40 MiB, and its WAL grows to half a GiB under load."""
PREDECESSOR_TIMEOUT = 10.0  # seconds for the last processes of a killed Postgres to end
PREDECESSOR_INTERVAL = 0.1
LOG_INTERVAL = 60.0


class EmbeddedPostgres:
    def __init__(
        self,
        directory: Path,
        *,
        run_as: str = "nobody",
        minimum_free_bytes: int = MINIMUM_FREE_BYTES,
        max_connections: int = 100,
        settings: Mapping[str, str] | None = None,
        start_timeout: float = 300.0,
        stop_timeout: float = 30.0,
        report: Report = lambda event, fields: None,
    ) -> None:
        """`directory` is the node's data directory. `run_as` is used only if the node runs as root.

        `settings` override Palaver's own. `start_timeout` must be enough for recovery after a crash.
        `stop_timeout` is the time for a fast shutdown, before an immediate one.
        """
        self._layout = Layout(directory.resolve())
        self._run_as = run_as
        self._minimum_free_bytes = minimum_free_bytes
        self._max_connections = max_connections
        self._settings = dict(settings or {})
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._report = report
        self._machine = Supervision()
        self._identity: Identity | None = None
        self._lock_handle: int | None = None
        self._process: Process | None = None
        self._background = BackgroundTasks()

    @property
    def address(self) -> DatabaseAddress:
        return DatabaseAddress.at_socket(self._layout.home, PORT, user="palaver", database="palaver")

    @property
    def state(self) -> State:
        return self._machine.state

    @property
    def restarts(self) -> int:
        return self._machine.restarts

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the server and wait until it accepts connections. Raises LocalError if an operator has to
        act.

        It may be cancelled.
        """
        effects = self._machine.receive(Input.START, time.monotonic())
        assert effects == (Effect.LAUNCH,), "started twice without being stopped"
        began = time.monotonic()
        try:
            self._prepare()
            event = await self._adopt_or_start()
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            self._machine.receive(Input.STOP if is_cancelled else Input.LOST, time.monotonic())
            await self._terminate()
            if isinstance(error, OSError):
                raise explain_failure(str(error), self._layout.home, free_space(self._layout.data)) from error
            raise
        self._machine.receive(Input.READY, time.monotonic())
        self._report_event(event, seconds=time.monotonic() - began)
        self._background = BackgroundTasks()
        self._background.supervise("embedded Postgres", self._watch)

    async def stop(self) -> None:
        """Stop the server and wait until it has ended. If this is cancelled, it can be called again."""
        assert self._machine.state is not State.STARTING, "a start is stopped by cancelling it"
        self._machine.receive(Input.STOP, time.monotonic())
        await self._background.close()
        await self._terminate()

    def _prepare(self) -> None:
        check_path(self._layout)
        self._identity = choose_identity(self._run_as, os.geteuid())
        home.prepare_home(self._layout, self._identity)
        self._lock_handle = home.lock_home(self._layout)
        version = self._layout.cluster / "PG_VERSION"
        check_major_version(
            self._layout,
            {entry.name for entry in self._layout.home.iterdir()},
            version.read_text().strip() if version.is_file() else None,
        )

    async def _adopt_or_start(self) -> str:
        """Adopt or start a Postgres, wait until it accepts connections, and return the event to report."""
        began = time.monotonic()
        programs = Programs(self._layout, self._identity)
        while True:
            if await self._adopt():
                return "postgres_adopted"
            check_free_space(self._layout.home, self._minimum_free_bytes)
            if not is_initialised(self._layout):
                await initialise(programs)
                self._report_event("postgres_initialised", seconds=time.monotonic() - began)
            if await self._launch(programs, may_retry=time.monotonic() < began + PREDECESSOR_TIMEOUT):
                return "postgres_started"
            await asyncio.sleep(PREDECESSOR_INTERVAL)

    async def _adopt(self) -> bool:
        """Adopt a running Postgres of this directory; waits for one that is starting or stopping."""
        self._process = await find_running(self._layout)
        if self._process is None:
            return False
        self._report_event("postgres_found")
        if await wait_until_accepting(self.address, self._process, within=self._start_timeout):
            return True
        await self._end_process()
        return False

    async def _launch(self, programs: Programs, *, may_retry: bool) -> bool:
        """Start a Postgres. False if the failure is transient and `may_retry`."""
        start = log.end_of_log(self._layout.log)
        words = server_arguments(str(self._layout.home), self._max_connections, self._settings)
        self._process = await programs.postgres(words)
        if await wait_until_accepting(self.address, self._process, within=self._start_timeout):
            return True
        if not await self._process.ended(0):
            await self._end_process()
            raise LocalError(
                f"Postgres in {self._layout.home} accepted no connection within {self._start_timeout:g} seconds.",
                f"Read {self._layout.log} for the reason, and start the node again.",
            )
        await self._end_process()
        output = log.read_since(self._layout.log, start)
        if may_retry and is_transient(output):
            return False
        raise explain_failure(output, self._layout.home, free_space(self._layout.home), log=self._layout.log)

    async def _watch(self) -> None:
        while True:
            deadline = self._machine.deadline()
            if deadline is None:
                await self._wait_until_lost()
                self._schedule_restart()
            else:
                await asyncio.sleep(deadline - time.monotonic())
                self._machine.receive(Input.DUE, time.monotonic())
                await self._restart()

    def _schedule_restart(self) -> None:
        now = time.monotonic()
        self._machine.receive(Input.LOST, now)
        wait = (self._machine.deadline() or now) - now
        self._report_event("postgres_restarting", seconds=wait, failures=self._machine.failures)

    async def _wait_until_lost(self) -> None:
        process = self._process
        assert process is not None, "a running server has a process"
        while not await process.ended(LOG_INTERVAL):
            if log.truncate(self._layout.log):
                self._report_event("postgres_log_truncated")
        self._report("postgres_lost", {"pid": process.pid, "status": await process.status()})
        await self._end_process()

    async def _restart(self) -> None:
        began = time.monotonic()
        try:
            event = await self._adopt_or_start()
        except Exception as error:
            # Whatever the error is, the node needs its Postgres: the error is reported, and the start is
            # retried.
            problem, advice = (error.problem, error.advice) if isinstance(error, LocalError) else (repr(error), "")
            await self._end_process()
            self._report("postgres_failed", {"problem": problem, "advice": advice})
            self._schedule_restart()
        else:
            self._machine.receive(Input.READY, time.monotonic())
            self._report_event(event, seconds=time.monotonic() - began)

    async def _terminate(self) -> None:
        sent = await self._end_process()
        if sent is not None:
            self._report("postgres_stopped", {"signal": sent})
        if self._lock_handle is not None:
            os.close(self._lock_handle)
            self._lock_handle = None

    async def _end_process(self) -> str | None:
        process = self._process
        if process is None:
            return None
        # If this is cancelled, `_process` is kept, and the next call continues.
        sent = await stop_postmaster(process, fast=self._stop_timeout, immediate=self._stop_timeout / 3)
        self._process = None
        await process.close()
        return sent

    def _report_event(self, event: str, **fields: object) -> None:
        self._report(event, {"pid": self.pid, **fields})
