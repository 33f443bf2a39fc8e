"""A server or a load generator in its own process, which is always ended with the benchmark."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

# How long a server may take over its own ending before it is killed.
_GRACE_SECONDS = 5.0

# Bytes. A line may tell of every single thing that was measured.
MOST_IN_A_LINE = 16 * 1024 * 1024

# What the child does to itself before it becomes the command; from outside it would come too late for what
# the command does first.
_STAY_ON_CPU = """\
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.execvp(sys.argv[2], sys.argv[2:])
"""


class ChildError(Exception):
    """A child process did not do what the benchmark needs."""


class Child:
    """A running child. It exchanges lines with the benchmark; its stderr is the benchmark's."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._process = process

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    async def ask(self, line: str, seconds: float) -> str:
        """Write a line, and read the line that answers it."""
        assert self._process.stdin is not None, "children are started with a pipe"
        self._process.stdin.write(line.encode() + b"\n")
        return await self.line(seconds)

    async def line(self, seconds: float) -> str:
        """Return its next line; raises if it ends or stays silent."""
        assert self._process.stdout is not None, "children are started with a pipe"
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
                if not line:
                    raise ChildError(f"{self.name} ended with status {await self._process.wait()}")
        except TimeoutError:
            raise ChildError(f"{self.name} said nothing for {seconds:g} s") from None
        return line.decode().rstrip("\n")

    def check_alive(self) -> None:
        """Raise if it has ended: for callers that wait for something other than a line."""
        if self._process.returncode is not None:
            raise ChildError(f"{self.name} ended with status {self._process.returncode}")


@asynccontextmanager
async def child(
    name: str, *command: str, environment: Mapping[str, str] | None = None, cpu: int | None = None
) -> AsyncIterator[Child]:
    """Run a command as the leader of its own process group until the block ends.

    Its standard input closes when the benchmark dies, even by SIGKILL: our own children end on that.
    `environment` is added to ours. With `cpu` it stays on that one: left to the scheduler, a server and its
    load take turns on one CPU in some rounds and not in others.
    """
    if cpu is not None:
        command = (sys.executable, "-I", "-S", "-c", _STAY_ON_CPU, str(cpu), *command)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
        limit=MOST_IN_A_LINE,
    )
    try:
        yield Child(name, process)
    finally:
        await _end(process)


def python_module(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of this project in a child, with this Python."""
    return (sys.executable, "-m", module, *arguments)


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        # Also when this waiting was itself cancelled: nothing that we started outlives us.
        _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    # After it is reaped, its id may belong to another process, so a signal is only sent before.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
