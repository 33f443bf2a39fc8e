"""The supervisor of a process when the node has ended."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.agents.local import supervisor
from tests.bridge.agents.running import TIMEOUT, end_of, is_alive, process_in

ROOT = Path(__file__).parents[4]


@asynccontextmanager
async def node(loop: str, grace: float, script: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bridge.agents.node_process", loop, str(grace), "/bin/sh", "-c",
        script, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), TIMEOUT)
        # Read the rest of the output, or its transport would stay open.
        assert process.stdout is not None
        await process.stdout.read()


async def told(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), TIMEOUT)).decode().strip()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_a_killed_node_leaves_no_process(tmp_path: Path, loop: str) -> None:
    """`kill -9` of the node: the command, its children and a daemon end although they ignore SIGTERM, and the
    temporary files are removed."""
    script = f"""
        trap '' TERM
        sleep 1000 & echo $! > {tmp_path}/child
        setsid sh -c 'trap "" TERM; sleep 1000 & echo $! > {tmp_path}/daemon; exit' </dev/null >/dev/null 2>&1
        echo $$ > {tmp_path}/it
        echo $FILE >&2
        wait
    """
    async with node(loop, 0.3, script) as process:
        file = Path(await told(process))
        assert file.exists()
        process.kill()
        for name in ("it", "child", "daemon"):
            await end_of(await process_in(tmp_path / name))
    async with asyncio.timeout(TIMEOUT):
        while file.parent.exists():
            await asyncio.sleep(0.01)


async def test_a_process_has_its_grace_period_after_the_nodes_end(tmp_path: Path) -> None:
    """It gets SIGTERM first. (The shell reports that its `sleep` was terminated, which nobody reads.)"""
    script = f"""
        trap '' PIPE
        trap 'echo clean > {tmp_path}/end; exit' TERM
        echo ready >&2
        while :; do sleep 0.01; done
    """
    async with node("asyncio", TIMEOUT, script) as process:
        assert await told(process) == "ready"
        process.kill()
        async with asyncio.timeout(TIMEOUT):
            while not (tmp_path / "end").exists():
                await asyncio.sleep(0.01)


async def test_the_supervisor_ignores_terminal_signals(tmp_path: Path) -> None:
    """And SIGTERM: only the node ends it."""
    script = f"echo $PPID > {tmp_path}/supervisor; echo ready >&2; sleep 1000"
    async with node("asyncio", 0.1, script) as process:
        assert await told(process) == "ready"
        number = await process_in(tmp_path / "supervisor")
        for sign in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(number, sign)
        assert is_alive(number)
        process.kill()
        await end_of(number)


async def test_descendants_are_found_across_sessions() -> None:
    """By their parents' ids; zombies do not count."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & wait", stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        grandchild = int(await asyncio.wait_for(process.stdout.readline(), TIMEOUT))
        found = supervisor.descendants(os.getpid())
        assert {process.pid, grandchild} <= found
        assert grandchild in supervisor.descendants(process.pid)
        assert os.getpid() not in found
    finally:
        os.kill(grandchild, signal.SIGKILL)
        process.kill()
        await process.communicate()
    assert supervisor.descendants(process.pid) == set()


async def test_bytes_that_are_not_utf_8_are_passed_on() -> None:
    """File names and variables need not be UTF-8; an unpaired surrogate becomes a question mark."""
    assert supervisor.encode_argument("a\udcff") == b"a\xff"
    assert supervisor.encode_argument("\ud800") == b"?"
