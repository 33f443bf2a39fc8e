"""Waiting for a task in a process of its own."""

import asyncio
import json
import os
import pty
import signal
import sys

from bridge.tasks.answer import Answer
from bridge.tasks.task import State
from tests.bridge.cli.conftest import AgentsNode
from tests.bridge.cli.test_tail import TIMEOUT, line_with, started


async def test_ctrl_c_cancels_the_task(agents: AgentsNode) -> None:
    """The agent is stopped, and the command exits with 130."""
    await agents.node.local_agents.register("cook")
    async with started(agents.data_dir.parent, "task", "send", "cook", "Cook.", "--id", "one") as process:
        task = await agents.node.given()
        await line_with(process.stderr, "one@here.test for")
        process.send_signal(signal.SIGINT)
        await line_with(process.stderr, "one@here.test is cancelled.")
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 130
    ended = await agents.node.task("one")
    assert (ended.state, (await agents.node.local_agents.cancelled.get()).key) == (State.CANCELLED, task.key)
    assert ended.answer is not None
    assert ended.answer.output == "Cancelled by operator@here.test: Ctrl-C"


async def test_ctrl_c_does_not_cancel_a_task_that_is_only_awaited(agents: AgentsNode) -> None:
    """Another requester may need it."""
    await agents.node.local_agents.register("cook")
    await agents.node.whole("task-send", to="cook", prompt="Cook.", id="one")
    async with started(agents.data_dir.parent, "task", "wait", "one", "--json") as process:
        await line_with(process.stdout, "accepted")
        process.send_signal(signal.SIGINT)
        result = json.loads(await line_with(process.stdout, "interrupted"))
        assert (result["task"], result["cancelled"]) == ("one@here.test", False)
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 130
    assert not (await agents.node.task("one")).state.is_final


async def test_when_the_node_stops_the_advice_has_the_key(agents: AgentsNode) -> None:
    """The task is in the database, and `palaver task wait` continues with the key."""
    await agents.node.local_agents.register("cook")
    async with started(agents.data_dir.parent, "task", "send", "cook", "Cook.", "--id", "one") as process:
        await agents.node.given()
        await line_with(process.stderr, "one@here.test for")
        await agents.control.stop()
        assert "palaver task wait 'one@here.test'" in await line_with(process.stderr, "is stopping")
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 1
    assert not (await agents.node.task("one")).state.is_final


async def test_on_a_terminal_control_characters_are_removed(agents: AgentsNode) -> None:
    """Files and pipes receive the unchanged output."""
    await agents.node.local_agents.register("cook")
    mine, its = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from bridge.cli import main; main()", "task", "send", "cook", "Cook.",
            cwd=agents.data_dir.parent, env={**os.environ, "TERM": "dumb"},
            stdin=asyncio.subprocess.DEVNULL, stdout=its, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await agents.node.local_agents.run(await agents.node.given(), Answer(True, "red: \x1b[31m\nend", 0))
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert os.read(mine, 10_000) == b"red: \\x1b[31m\r\nend\r\n"
    finally:
        os.close(its)
        os.close(mine)
