"""`palaver tail`, as a process of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bridge.connectors.cis.acts import Act, Verdict
from bridge.connectors.cis.live import of_act
from bridge.tasks.answer import Answer
from tests.bridge.cli.conftest import Agents

TIMEOUT = 60.0


@asynccontextmanager
async def started(directory: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`palaver WORDS…` as a person starts it; killed in the end if it is still there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from bridge.cli import main; main()", *words,
        cwd=directory, env={**os.environ, "COLUMNS": "200"}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(stream: asyncio.StreamReader | None, part: str) -> str:
    """The next line that has it."""
    assert stream is not None
    async with asyncio.timeout(TIMEOUT):
        while True:
            line = (await stream.readline()).decode()
            assert line, f"it ended without {part}"
            if part in line:
                return line


async def test_what_happens_is_shown(agents: Agents) -> None:
    """A line each, harmless for a terminal, until Ctrl-C."""
    async with started(agents.data_dir.parent, "tail") as process:
        await line_with(process.stderr, "Listening")
        await agents.node.hands.come("cook", runtime="kimi")
        assert "kimi, idle" in await line_with(process.stdout, "cook@here.test is there")
        await agents.node.whole("task-send", to="cook", prompt="Cook.", id="one")
        await agents.node.hands.do(
            await agents.node.given(), Answer(True, "Done.", 0), {"message": "half\x1b"}
        )
        await line_with(process.stdout, "cook@here.test: half")
        await line_with(process.stdout, "done")
        act = Act("a.test", "\x1b[31m", Verdict.KEPT)
        agents.node.parts.feed.show(partial(of_act, act))
        assert "\x1b" not in await line_with(process.stdout, "a.test")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 130
    # Nobody is watched for any more.
    async with asyncio.timeout(TIMEOUT):
        while agents.node.parts.feed._listeners:
            await asyncio.sleep(0.01)


async def test_it_speaks_json_and_can_be_narrowed(agents: Agents) -> None:
    """One object per line, and only what was asked for."""
    async with started(
        agents.data_dir.parent, "tail", "--type", "task", "--task", "two", "--json"
    ) as process:
        await line_with(process.stdout, "listening")
        await agents.node.hands.come("cook")
        for request_id in ("one", "two"):
            await agents.node.whole("task-send", to="cook", prompt="Cook.", id=request_id)
        said = json.loads(await line_with(process.stdout, "{"))
        assert (said["type"], said["task"]) == ("task", "two@here.test")


async def test_the_nodes_end_is_told(agents: Agents) -> None:
    """In a sentence, and not as if nothing more would happen."""
    async with started(agents.data_dir.parent, "tail") as process:
        await line_with(process.stderr, "Listening")
        await agents.control.stop()
        await line_with(process.stderr, "is stopping")
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 1


async def test_a_kind_that_there_is_not_is_told(agents: Agents) -> None:
    """With those that there are."""
    said = await agents.palaver("tail", "--type", "weather")
    assert (said.code, "agent, task, progress" in said.err) == (1, True)
