"""`make demo`: two nodes with agents, a task from one to the other, an agent that is killed; nothing is left
over."""

import asyncio
import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.node import ROOT
from tests.support.ports import lasting_port, take

# The demonstration has its own timeouts and reports what did not happen in time.
pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]
TIMEOUT = 600.0
MAX_LINES = 65
LONG_RUNNING = (" tail", " agent run")


@pytest.fixture
def place() -> Iterator[Path]:
    """The directory for the demonstration's own one. Socket paths in it must be short."""
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        yield Path(name)


class Demo:
    """The demonstration as a process, with its output so far."""

    def __init__(self, process: asyncio.subprocess.Process, out: asyncio.StreamReader) -> None:
        self.process = process
        self.lines: list[str] = []
        self._out = out

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, part: str) -> str:
        async with asyncio.timeout(TIMEOUT):
            while line := await self._line():
                if part in line:
                    return line
        raise AssertionError(f"It ended without {part!r}:\n{self.text}")

    async def end(self) -> int:
        async with asyncio.timeout(TIMEOUT):
            while await self._line():
                pass
            return await self.process.wait()

    async def _line(self) -> str:
        try:
            line = (await self._out.readline()).decode()
        except OSError:  # the other end of the terminal was closed
            return ""
        if line:
            self.lines.append(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip())
        return line


@asynccontextmanager
async def demo(palaver: Path, place: Path, *options: str, on_terminal: bool = False) -> AsyncIterator[Demo]:
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "examples" / "demo.py"), *options,
        cwd=ROOT, env={**os.environ, "PALAVER": str(palaver), "TMPDIR": str(place), "COLUMNS": "110"},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0)
    )
    one = Demo(process, reader)
    try:
        yield one
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), TIMEOUT)
        transport.close()


def ports() -> tuple[str, ...]:
    return ("--ports", str(lasting_port()), str(lasting_port()))


def processes_of(place: Path) -> list[str]:
    """The command lines of processes that run in the directory or name it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if str(place) in words or str(place) in str((entry / "cwd").readlink()):
                    found.append(words)
    return found


async def nothing_is_left(place: Path) -> None:
    assert list(place.iterdir()) == []
    async with asyncio.timeout(TIMEOUT):
        # The supervisors of commands end shortly after the node.
        while processes_of(place):
            await asyncio.sleep(0.1)


async def test_the_demonstration_runs_to_its_end(palaver: Path, place: Path) -> None:
    """Its output is short enough to read."""
    async with demo(palaver, place, "--once", *ports()) as one:
        assert await one.end() == 0, one.text
    for part in (
        "Both run after",
        "each of them knew the other's agent",
        "reading the task of operator@localhost:",
        "10 words. The longest one is “words”.",
        "$ kill -9 ",
        "seconds after the kill",
        "Unknown  The agent visitor@localhost:",
        "sent no heartbeat for too long",
        "Everything is stopped and removed.",
    ):
        assert part in one.text, one.text
    assert len(one.lines) <= MAX_LINES, one.text
    await nothing_is_left(place)


async def test_on_a_terminal_the_printed_commands_work(palaver: Path, place: Path) -> None:
    """Every printed command can be used as it is, until Ctrl-C, which is a successful end."""
    async with demo(palaver, place, *ports(), on_terminal=True) as one:
        await one.until("Look around")
        await one.until("Ctrl-C stops")
        shown = one.lines[next(i for i, line in enumerate(one.lines) if "Look around" in line) + 1 :]
        tried = 0
        for line in shown:
            if line.startswith("  export PALAVER_CONFIG="):
                export = line.strip()
            elif line.startswith("  "):
                await works(f"{export}; exec {line.strip()}")
                tried += 1
        assert tried > 5, shown
        one.process.send_signal(signal.SIGINT)
        assert await one.end() == 0, one.text
    await nothing_is_left(place)


async def works(line: str) -> None:
    """The command succeeds, or prints something and runs until it gets SIGINT."""
    tried = await asyncio.create_subprocess_shell(
        line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert tried.stdout is not None
    said = b""
    async with asyncio.timeout(TIMEOUT):
        if any(words in line for words in LONG_RUNNING):
            said = await tried.stdout.readline()
            tried.send_signal(signal.SIGINT)
        said += await tried.stdout.read()
        code = await tried.wait()
    assert code in ((0, 130) if " tail" in line else (0,)), (line, said.decode())


@pytest.mark.parametrize(
    ("line", "file"), [("$ palaver run -c workshop", "*/workshop/data/postgres"), ("kill -9", "*/workshop/data")]
)
async def test_ctrl_c_leaves_nothing(palaver: Path, place: Path, line: str, file: str) -> None:
    """No process and no directory, while nodes start and after an agent was killed."""
    async with demo(palaver, place, "--once", *ports()) as one:
        await one.until(line)
        async with asyncio.timeout(TIMEOUT):
            while not list(place.glob(file)):
                await asyncio.sleep(0.01)
        one.process.send_signal(signal.SIGINT)
        assert await one.end() == 130, one.text
    await nothing_is_left(place)


async def test_an_error_is_shown_with_the_end_of_the_log(palaver: Path, place: Path) -> None:
    """And everything else is stopped."""
    taken = lasting_port()
    with take(taken):
        async with demo(palaver, place, "--once", "--ports", str(lasting_port()), str(taken)) as one:
            assert await one.end() == 1, one.text
    assert "The demonstration failed. The node workshop ended unexpectedly with code 1." in one.text
    assert "node.log" in one.text
    assert f"Port {taken} on 127.0.0.1 is in use" in one.text
    await nothing_is_left(place)


async def test_without_palaver_the_error_says_how_to_install_it(place: Path) -> None:
    """The demonstration needs the command."""
    async with demo(place / "palaver", place, "--once", *ports()) as one:
        assert await one.end() == 1, one.text
    assert "`make run` installs it" in one.text
    await nothing_is_left(place)
