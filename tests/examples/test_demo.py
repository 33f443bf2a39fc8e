"""`make demo`: two nodes, agents on both, a task across, an agent that dies; and nothing is left of it."""

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

# The demonstration has bounds of its own, and says what did not happen in time.
pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]
TIMEOUT = 600.0
LONGEST_STORY = 65
GOING_ON = (" tail", " agent run")


@pytest.fixture
def place() -> Iterator[Path]:
    """Where it makes its directory. The sockets in it must have short paths."""
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        yield Path(name)


class Demo:
    """The demonstration as a process, and what it has said so far."""

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
        except OSError:  # a terminal of which nobody has the other end
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
    """Whoever works in the directory, or was started with something in it."""
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
        # The guards of commands end with the node, and need a moment to see its end.
        while processes_of(place):
            await asyncio.sleep(0.1)


async def test_it_tells_its_story(palaver: Path, place: Path) -> None:
    """From nothing to the end, in as many lines as somebody reads."""
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
    assert len(one.lines) <= LONGEST_STORY, one.text
    await nothing_is_left(place)


async def test_on_a_terminal_it_stays_and_its_command_lines_work(palaver: Path, place: Path) -> None:
    """All that it says can be typed as it stands, until Ctrl-C, which is a good end."""
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
    """It ends well, or says something and goes on until it is asked to end."""
    tried = await asyncio.create_subprocess_shell(
        line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert tried.stdout is not None
    said = b""
    async with asyncio.timeout(TIMEOUT):
        if any(words in line for words in GOING_ON):
            said = await tried.stdout.readline()
            tried.send_signal(signal.SIGINT)
        said += await tried.stdout.read()
        code = await tried.wait()
    assert code in ((0, 130) if " tail" in line else (0,)), (line, said.decode())


@pytest.mark.parametrize(
    ("line", "file"),
    [("$ palaver run -c workshop", "*/workshop/data/postgres"), ("kill -9", "*/workshop/data")],
)
async def test_ctrl_c_leaves_nothing(palaver: Path, place: Path, line: str, file: str) -> None:
    """No process and no directory, whatever was under way: nodes that begin, an agent that has just died."""
    async with demo(palaver, place, "--once", *ports()) as one:
        await one.until(line)
        async with asyncio.timeout(TIMEOUT):
            while not list(place.glob(file)):
                await asyncio.sleep(0.01)
        one.process.send_signal(signal.SIGINT)
        assert await one.end() == 130, one.text
    await nothing_is_left(place)


async def test_what_goes_wrong_is_told_with_the_end_of_the_log(palaver: Path, place: Path) -> None:
    """And everything else is stopped."""
    taken = lasting_port()
    with take(taken):
        async with demo(palaver, place, "--once", "--ports", str(lasting_port()), str(taken)) as one:
            assert await one.end() == 1, one.text
    assert "The demonstration failed. The node workshop ended unexpectedly with code 1." in one.text
    assert "node.log" in one.text
    assert f"Port {taken} on 127.0.0.1 is taken" in one.text
    await nothing_is_left(place)


async def test_without_palaver_it_says_where_to_get_it(place: Path) -> None:
    """There is nothing to try without it."""
    async with demo(place / "palaver", place, "--once", *ports()) as one:
        assert await one.end() == 1, one.text
    assert "`make run` installs it" in one.text
    await nothing_is_left(place)
