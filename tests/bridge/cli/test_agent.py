"""`palaver agent run` in a process of its own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, make_token
from bridge.tasks.answer import Answer
from bridge.tasks.task import State
from storage.database import Database
from tests.bridge.agents.attached.api_running import Api, api
from tests.bridge.agents.running import end_of, is_alive, process_in
from tests.bridge.cli.conftest import Palaver

TIMEOUT = 60.0


@asynccontextmanager
async def program(one: Api, directory: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command with the node's address, and its token in a file."""
    (directory / "token").write_text(await one.token())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from bridge.cli import main; main()", "agent", "run", "--id", "worker",
        "--token-file", "token", "--url", f"http://127.0.0.1:{one.port}", *words,
        cwd=directory, env={**os.environ, "SECRET_OF_MINE": "hidden"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdout is not None
        await process.stdout.read()
        await asyncio.wait_for(process.wait(), TIMEOUT)


async def until(process: asyncio.subprocess.Process, part: str) -> None:
    assert process.stdout is not None
    result = []
    async with asyncio.timeout(TIMEOUT):
        while True:
            line = (await process.stdout.readline()).decode()
            result.append(line)
            if part in line:
                return
            assert line, result


async def test_the_agent_is_attached_until_sigterm(database: Database, tmp_path: Path) -> None:
    """After SIGTERM it finishes the running task and exits with 0, and the agent is offline."""
    async with api(database, tmp_path) as one:
        waiting = f"touch {tmp_path}/on; until [ -e {tmp_path}/go ]; do sleep 0.01; done"
        script = f'{waiting}; echo "$SECRET_OF_MINE" $(pwd)'
        words = ("--runtime", "kimi", "--capability", "cooking", "-C", "/", "--", "sh", "-c", script)
        async with program(one, tmp_path, *words) as process:
            await until(process, "Attached as worker@here.")
            agent = await one.node.status_is(AgentStatus.IDLE)
            assert (agent.runtime, agent.capabilities) == ("kimi", ("cooking",))
            await one.node.ask("a")
            while not (tmp_path / "on").exists():
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            await until(process, "Stopping when one task is finished.")
            (tmp_path / "go").touch()
            assert (await one.node.answered()).answer == Answer(True, " /\n", 0)
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
        assert (await one.node.status_is(AgentStatus.SHUTDOWN)).gone_reason == "shutdown"


async def test_a_killed_agent_leaves_no_processes(database: Database, tmp_path: Path) -> None:
    """After `kill -9` its command ends too, and the task fails when another program attaches as the agent."""
    async with api(database, tmp_path) as one:
        script = f"sleep 1000 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/it; wait"
        async with program(one, tmp_path, "--", "sh", "-c", script) as process:
            await until(process, "Attached")
            await one.node.ask("a")
            it, child = await process_in(tmp_path / "it"), await process_in(tmp_path / "child")
            assert is_alive(it)
            process.kill()
            await end_of(it)
            await end_of(child)
        await one.register("another-session")
        assert (await one.node.answered()).state is State.FAILED


async def test_a_command_of_an_agent_may_call_palaver(palaver: Palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of its task are not settings."""
    monkeypatch.setenv("PALAVER_TASK_ID", "task-1")
    monkeypatch.setenv("PALAVER_TASK_METADATA", "{}")
    result = palaver("config", "check")
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--token-file", "none", "--", "true"), "can't be read"),
        (("--token-file", "bad", "--", "true"), "does not contain an agent's token"),
        (("--token-file", "token"), "There is no command to run."),
        (("--token-file", "token", "--", "no-such-program"), "no-such-program"),
        (("--token-file", "token", "--", "echo", "{modle}"), "{modle}"),
        (("--token-file", "token", "-C", "none", "--", "true"), "does not exist"),
        (("--token-file", "token", "--runtime", "A B", "--", "true"), "name of a runtime"),
        (("--token-file", "token", "--capability", " ", "--", "true"), "capabilities are not valid"),
        (("--token-file", "token", "--authority", "token", "--", "true"), "contains no certificate in PEM format"),
        (("--token-file", "token", "--authority", "none", "--", "true"), "no such file"),
        (("--token-file", "token", "--url", "node.example", "--", "true"), "not the URL of a node. Write"),
        (("--token-file", "token", "--url", "ftp://node.example", "--", "true"), "not the URL of a node"),
        (("--token-file", "token", "--id", "a@b", "--", "true"), "id is not valid"),
        (("--token-file", "token", "--url", "http://127.0.0.1:1", "--id", "", "--", "true"), "id is not valid"),
    ],
)
def test_invalid_options_are_refused(palaver: Palaver, tmp_path: Path, words: tuple[str, ...], part: str) -> None:
    """Before the command connects to the node."""
    (tmp_path / "token").write_text(make_token(bytes(ID_BYTES), bytes(SECRET_BYTES)).text)
    (tmp_path / "bad").write_text("plv_nonsense")
    result = palaver("agent", "run", "--id", "worker", *words)
    assert (result.code, part in result.err) == (1, True), result
