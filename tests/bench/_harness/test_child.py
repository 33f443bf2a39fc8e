import asyncio
import os
import sys
from pathlib import Path

import pytest

from bench._harness.child import Child, ChildError, child, python_module
from bench._harness.machine import processors

ECHO = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"
# As stubborn as a server can be: it ignores the polite signals, and so does the process it started.
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(grandchild.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def runs(pid: int) -> bool:
    """A zombie that nobody has reaped yet has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def test_a_child_is_asked_and_answers_in_lines() -> None:
    """That is the whole protocol."""
    async with child("echo", *python(ECHO)) as echo:
        assert await echo.ask("this", 10) == "heard this"
        assert await echo.ask("that", 10) == "heard that"


async def test_a_line_may_be_long() -> None:
    """A run of many thousand tasks is told in one."""
    async with child("teller", *python("print('1.5 ' * 100_000)")) as teller:
        assert len((await teller.line(10)).split()) == 100_000


async def test_a_child_ends_with_its_block() -> None:
    """By its id, also when the block fails."""
    running: Child | None = None
    with pytest.raises(RuntimeError, match="in the middle"):
        async with child("echo", *python(ECHO)) as running:
            raise RuntimeError("in the middle")
    assert running is not None
    assert not runs(running.pid)
    with pytest.raises(ChildError, match="echo ended with status -15"):
        running.check_alive()


async def test_what_a_child_started_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its group is ended, and killed when it does not end in time."""
    monkeypatch.setattr("bench._harness.child._GRACE_SECONDS", 0.1)
    async with child("stubborn", *python(STUBBORN)) as stubborn:
        grandchild = int(await stubborn.line(10))
        assert os.getpgid(grandchild) == stubborn.pid
    assert not runs(stubborn.pid)
    # Nobody but init can wait for it; it has been killed, and that is carried out very soon.
    async with asyncio.timeout(10):
        while runs(grandchild):
            await asyncio.sleep(0.01)


async def test_a_child_that_ends_early_is_an_error() -> None:
    """Nobody waits for the line of a dead process."""
    async with child("short-lived", *python("raise SystemExit(3)")) as short_lived:
        with pytest.raises(ChildError, match="short-lived ended with status 3"):
            await short_lived.line(10)


async def test_a_silent_child_is_an_error() -> None:
    """After the time given."""
    async with child("echo", *python(ECHO)) as echo:
        with pytest.raises(ChildError, match=r"echo said nothing for 0\.05 s"):
            await echo.line(0.05)


async def test_a_child_gets_the_environment_and_the_cpu_it_is_given() -> None:
    """On top of ours, and no other CPU."""
    code = "import os; print(os.environ['BENCH_TEST'], os.sched_getaffinity(0), flush=True); input()"
    last = processors()[-1]
    async with child("shy", *python(code), environment={"BENCH_TEST": "here"}, cpu=last) as shy:
        assert await shy.line(10) == f"here {{{last}}}"


async def test_our_own_modules_end_when_the_pipe_to_us_closes() -> None:
    """As it does when the benchmark is killed: the lifeline."""
    async with child("generator", *python_module("bench._harness.http_load_generator")) as generator:
        stdin = generator._process.stdin
        assert stdin is not None
        stdin.close()
        with pytest.raises(ChildError, match="generator ended with status 0"):
            await generator.line(10)
