"""The private Postgres of a node: started, adopted, started again when it dies, and stopped with the node.

What happens to it is told to `report(event, fields)`, in which nothing is secret:

- `postgres_initialised`: a new cluster was made
- `postgres_found`: one of an earlier node is still running, and is waited for; `pid`
- `postgres_started`, `postgres_adopted`: it accepts connections; `pid`, `seconds`
- `postgres_lost`: it ended by itself; `pid`, `status` (None for an adopted one)
- `postgres_restarting`: `seconds` until the next attempt, how many `failures` in a row
- `postgres_failed`: that attempt failed; `problem`, `advice`
- `postgres_stopped`: by the node; `signal`
- `postgres_log_truncated`
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from storage.address import DatabaseAddress
from storage.embedded import home, log
from storage.embedded.adoption import find_running
from storage.embedded.identity import Identity, choose
from storage.embedded.initialise import initialise, is_made
from storage.embedded.launch import Programs
from storage.embedded.layout import PORT, Layout, refuse_other_major, refuse_unusable_path
from storage.embedded.process import Process, end
from storage.embedded.readiness import accepting
from storage.embedded.settings import arguments
from storage.embedded.space import free_space, refuse_full
from storage.embedded.supervision import Effect, Input, State, Supervision
from storage.embedded.trouble import explain, is_passing
from storage.errors import LocalError

Report = Callable[[str, dict[str, object]], None]

MINIMUM_FREE_BYTES = (
    256 << 20
)  # a new cluster has 40 MiB, and its log of changes grows to half a GiB under load
PREDECESSOR_PATIENCE = 10.0  # seconds for the last processes of a killed Postgres to go away
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
        """`directory` is the node's data directory. `run_as` counts only for a node that is root.

        `settings` outrank Palaver's own. `start_timeout` has to be enough for recovering from a crash.
        `stop_timeout` is how long open work may take to end before it is cut off.
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
        self._held: int | None = None
        self._process: Process | None = None
        self._watcher: asyncio.Task[None] | None = None

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
        """Returns when the database accepts connections; LocalError when a person has to act first.

        To give it up, cancel it.
        """
        effects = self._machine.receive(Input.START, time.monotonic())
        assert effects == (Effect.LAUNCH,), "started twice without being stopped"
        began = time.monotonic()
        try:
            self._prepare()
            event = await self._bring_up()
        except BaseException as error:
            given_up = isinstance(error, asyncio.CancelledError)
            self._machine.receive(Input.STOP if given_up else Input.LOST, time.monotonic())
            await self._terminate()
            if isinstance(error, OSError):
                raise explain(str(error), self._layout.home, free_space(self._layout.data)) from error
            raise
        self._machine.receive(Input.READY, time.monotonic())
        self._tell(event, seconds=time.monotonic() - began)
        self._watcher = asyncio.create_task(self._watch(), name="embedded-postgres")

    async def stop(self) -> None:
        """Returns when Postgres has ended, at once when there is none. Cancelled, it can be called again."""
        assert self._machine.state is not State.STARTING, "a start is given up by cancelling it"
        self._machine.receive(Input.STOP, time.monotonic())
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        await self._terminate()

    def _prepare(self) -> None:
        refuse_unusable_path(self._layout)
        self._identity = choose(self._run_as, os.geteuid())
        home.prepare(self._layout, self._identity)
        self._held = home.hold(self._layout)
        version = self._layout.cluster / "PG_VERSION"
        refuse_other_major(
            self._layout,
            {entry.name for entry in self._layout.home.iterdir()},
            version.read_text().strip() if version.is_file() else None,
        )

    async def _bring_up(self) -> str:
        """A Postgres that accepts connections, by whichever way; returns what there is to report of it."""
        began = time.monotonic()
        programs = Programs(self._layout, self._identity)
        while True:
            if await self._adopt():
                return "postgres_adopted"
            refuse_full(self._layout.home, self._minimum_free_bytes)
            if not is_made(self._layout):
                await initialise(programs)
                self._tell("postgres_initialised", seconds=time.monotonic() - began)
            if await self._launch(programs, patient=time.monotonic() < began + PREDECESSOR_PATIENCE):
                return "postgres_started"
            await asyncio.sleep(PREDECESSOR_INTERVAL)

    async def _adopt(self) -> bool:
        """Take over a Postgres of this directory that runs; one that only starts or stops is waited for."""
        self._process = await find_running(self._layout)
        if self._process is None:
            return False
        self._tell("postgres_found")
        if await accepting(self.address, self._process, within=self._start_timeout):
            return True
        await self._end_process()
        return False

    async def _launch(self, programs: Programs, *, patient: bool) -> bool:
        """False when it is worth trying again."""
        start = log.mark(self._layout.log)
        words = arguments(str(self._layout.home), self._max_connections, self._settings)
        self._process = await programs.postgres(words)
        if await accepting(self.address, self._process, within=self._start_timeout):
            return True
        if not await self._process.ended(0):
            await self._end_process()
            raise LocalError(
                f"Postgres in {self._layout.home} took no connection for {self._start_timeout:g} seconds.",
                f"Read {self._layout.log} for what it was doing, and start the node again.",
            )
        await self._end_process()
        output = log.since(self._layout.log, start)
        if patient and is_passing(output):
            return False
        raise explain(output, self._layout.home, free_space(self._layout.home), log=self._layout.log)

    async def _watch(self) -> None:
        while True:
            deadline = self._machine.deadline()
            if deadline is None:
                await self._until_lost()
                self._lose()
            else:
                await asyncio.sleep(deadline - time.monotonic())
                self._machine.receive(Input.DUE, time.monotonic())
                await self._restart()

    def _lose(self) -> None:
        now = time.monotonic()
        self._machine.receive(Input.LOST, now)
        wait = (self._machine.deadline() or now) - now
        self._tell("postgres_restarting", seconds=wait, failures=self._machine.failures)

    async def _until_lost(self) -> None:
        process = self._process
        assert process is not None, "who is running has a process"
        while not await process.ended(LOG_INTERVAL):
            if log.truncate(self._layout.log):
                self._tell("postgres_log_truncated")
        self._report("postgres_lost", {"pid": process.pid, "status": await process.status()})
        await self._end_process()

    async def _restart(self) -> None:
        began = time.monotonic()
        try:
            event = await self._bring_up()
        except Exception as error:
            # Whatever it is that an exhausted machine does to us, a node without its Postgres is no node: it
            # is reported, and may be over at the next attempt.
            problem, advice = (
                (error.problem, error.advice) if isinstance(error, LocalError) else (repr(error), "")
            )
            await self._end_process()
            self._report("postgres_failed", {"problem": problem, "advice": advice})
            self._lose()
        else:
            self._machine.receive(Input.READY, time.monotonic())
            self._tell(event, seconds=time.monotonic() - began)

    async def _terminate(self) -> None:
        sent = await self._end_process()
        if sent is not None:
            self._report("postgres_stopped", {"signal": sent})
        if self._held is not None:
            os.close(self._held)
            self._held = None

    async def _end_process(self) -> str | None:
        process = self._process
        if process is None:
            return None
        # Cancelled in here, the process is still known, and the next call goes on with it.
        sent = await end(process, fast=self._stop_timeout, immediate=self._stop_timeout / 3)
        self._process = None
        await process.close()
        return sent

    def _tell(self, event: str, **fields: object) -> None:
        self._report(event, {"pid": self.pid, **fields})
