"""The client in `examples/`, against the real API."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bridge.agents.agent import AgentStatus
from bridge.tasks.answer import Answer
from storage.database import Database
from tests.bridge.agents.attached.api_running import TIMEOUT, Api, api

CLIENT = Path(__file__).parents[4] / "examples" / "agent_client.py"


@asynccontextmanager
async def echo(one: Api, directory: Path, token: str) -> AsyncIterator[asyncio.subprocess.Process]:
    (directory / "token").write_text(f"{token}\n")
    process = await asyncio.create_subprocess_exec(
        # With a Python that has no packages installed.
        sys.executable, "-I", "-S", str(CLIENT), "--token-file", "token",
        "--url", f"http://127.0.0.1:{one.port}",
        cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdout is not None
        await process.stdout.read()
        await asyncio.wait_for(process.wait(), TIMEOUT)


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), TIMEOUT)).decode().strip()


async def test_the_example_answers_tasks(database: Database, tmp_path: Path) -> None:
    """Until it is stopped."""
    async with api(database, tmp_path) as one, echo(one, tmp_path, await one.token("echo")) as process:
        assert await line(process) == "Attached as echo@here."
        for prompt in ("Hello", "Grüße\n"):
            await one.node.ask(prompt, "echo@here", prompt=prompt)
            assert (await one.node.answered()).answer == Answer(True, prompt, 0)
        _, progress = await one.node.requester.heard.get()
        assert progress == {"message": "reading the task of coordinator@living"}
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
        assert (await one.node.status_is(AgentStatus.SHUTDOWN, "echo@here")).gone_reason == "shutdown"


async def test_the_example_registers_again(database: Database, tmp_path: Path) -> None:
    """When the node has lost its session."""
    async with api(database, tmp_path) as one, echo(one, tmp_path, await one.token("echo")) as process:
        assert "Attached" in await line(process)
        one.node.attached._sessions.pop("echo").end()
        assert "Attached" in await line(process)


SLOW = """
import sys
sys.path.insert(0, sys.argv[1])
from agent_client import AgentClient
client = AgentClient(sys.argv[2], "echo", sys.argv[3])
client.register()
task = client.take()
print(client.begin(task), flush=True)
sys.stdin.readline()
print(client.progress(task, "back"), client.finish(task, "Done."), flush=True)
"""


async def test_the_example_continues_its_task_after_a_disconnection(database: Database, tmp_path: Path) -> None:
    """The result is not lost."""
    async with api(database, tmp_path) as one:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", SLOW,
            str(CLIENT.parent), f"http://127.0.0.1:{one.port}", await one.token("echo"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            await one.node.status_is(AgentStatus.IDLE, "echo@here")
            await one.node.ask("one", "echo@here")
            assert await line(process) == "True"
            one.node.attached._sessions.pop("echo").end()
            assert process.stdin is not None
            process.stdin.write(b"\n")
            assert await line(process) == "True True"
            assert (await one.node.answered()).answer == Answer(True, "Done.", 0)
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_the_example_stops_when_it_is_refused(database: Database, tmp_path: Path) -> None:
    """With the node's error."""
    async with api(database, tmp_path) as one, echo(one, tmp_path, await one.token("other")) as process:
        assert "403 M_FORBIDDEN: The token belongs to another agent." in await line(process)
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 1
