"""`palaver tail` in a process of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.live import to_live_event
from bridge.tasks.answer import Answer
from tests.bridge.cli.conftest import AgentsNode

TIMEOUT = 60.0


@asynccontextmanager
async def started(directory: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `palaver WORDS…`, and kill it at the end if it still runs."""
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
    """Return the next line that contains `part`."""
    assert stream is not None
    async with asyncio.timeout(TIMEOUT):
        while True:
            line = (await stream.readline()).decode()
            assert line, f"it ended without {part}"
            if part in line:
                return line


async def test_events_are_shown(agents: AgentsNode) -> None:
    """Each on a line without control characters, until Ctrl-C."""
    async with started(agents.data_dir.parent, "tail") as process:
        await line_with(process.stderr, "Listening")
        await agents.node.local_agents.register("cook", runtime="kimi")
        assert "kimi, idle" in await line_with(process.stdout, "cook@here.test is online")
        await agents.node.whole("task-send", to="cook", prompt="Cook.", id="one")
        await agents.node.local_agents.run(await agents.node.given(), Answer(True, "Done.", 0), {"message": "half\x1b"})
        await line_with(process.stdout, "cook@here.test: half")
        await line_with(process.stdout, "done")
        act = EventRecord("a.test", "\x1b[31m", Verdict.KEPT)
        agents.node.parts.feed.show(partial(to_live_event, act))
        assert "\x1b" not in await line_with(process.stdout, "a.test")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 130
    # The node has removed the listener.
    async with asyncio.timeout(TIMEOUT):
        while agents.node.parts.feed._listeners:
            await asyncio.sleep(0.01)


async def test_events_can_be_filtered_and_printed_as_json(agents: AgentsNode) -> None:
    """One object on each line."""
    async with started(agents.data_dir.parent, "tail", "--type", "task", "--task", "two", "--json") as process:
        await line_with(process.stdout, "listening")
        await agents.node.local_agents.register("cook")
        for request_id in ("one", "two"):
            await agents.node.whole("task-send", to="cook", prompt="Cook.", id=request_id)
        result = json.loads(await line_with(process.stdout, "{"))
        assert (result["type"], result["task"]) == ("task", "two@here.test")


async def test_the_end_of_the_node_is_reported(agents: AgentsNode) -> None:
    """The command exits with 1 instead of waiting."""
    async with started(agents.data_dir.parent, "tail") as process:
        await line_with(process.stderr, "Listening")
        await agents.control.stop()
        await line_with(process.stderr, "is stopping")
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 1


async def test_an_unknown_type_is_an_error(agents: AgentsNode) -> None:
    """The error lists the types."""
    result = await agents.palaver("tail", "--type", "weather")
    assert (result.code, "agent, task, progress" in result.err) == (1, True)
