"""`palaver agent run` as a process of its own."""

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
    """As a person starts it, with the node's address and its token in a file."""
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
    said = []
    async with asyncio.timeout(TIMEOUT):
        while True:
            line = (await process.stdout.readline()).decode()
            said.append(line)
            if part in line:
                return
            assert line, said


async def test_it_is_an_agent_until_it_is_told_to_leave(database: Database, tmp_path: Path) -> None:
    """SIGTERM finishes what is under way; then it ends well, and the agent is gone."""
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
            await until(process, "Leaving when one task is finished.")
            (tmp_path / "go").touch()
            assert (await one.node.answered()).answer == Answer(True, " /\n", 0)
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
        assert (await one.node.status_is(AgentStatus.SHUTDOWN)).gone_reason == "shutdown"


async def test_killed_it_leaves_no_orphan(database: Database, tmp_path: Path) -> None:
    """`kill -9`: its command ends with it, and the task fails when another program comes."""
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


async def test_a_process_of_an_agent_may_call_palaver(
    palaver: Palaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of its task are no settings."""
    monkeypatch.setenv("PALAVER_TASK_ID", "task-1")
    monkeypatch.setenv("PALAVER_TASK_METADATA", "{}")
    said = palaver("config", "check")
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--token-file", "none", "--", "true"), "can't be read"),
        (("--token-file", "bad", "--", "true"), "is no token"),
        (("--token-file", "token"), "What is to be run?"),
        (("--token-file", "token", "--", "no-such-program"), "no-such-program"),
        (("--token-file", "token", "--", "echo", "{modle}"), "{modle}"),
        (("--token-file", "token", "-C", "none", "--", "true"), "There is no directory"),
        (("--token-file", "token", "--runtime", "A B", "--", "true"), "name of a runtime"),
        (("--token-file", "token", "--capability", " ", "--", "true"), "no capabilities"),
        (("--token-file", "token", "--authority", "token", "--", "true"), "holds none in PEM"),
        (("--token-file", "token", "--authority", "none", "--", "true"), "no such file"),
        (("--token-file", "token", "--url", "node.example", "--", "true"), "not the URL of a node. Write"),
        (("--token-file", "token", "--url", "ftp://node.example", "--", "true"), "not the URL of a node"),
        (("--token-file", "token", "--id", "a@b", "--", "true"), "no agent of this id"),
        (("--token-file", "token", "--url", "http://127.0.0.1:1", "--id", "", "--", "true"), "no agent"),
    ],
)
def test_what_cannot_work_is_said_beforehand(
    palaver: Palaver, tmp_path: Path, words: tuple[str, ...], part: str
) -> None:
    """In a sentence, before anybody is asked anything."""
    (tmp_path / "token").write_text(make_token(bytes(ID_BYTES), bytes(SECRET_BYTES)).text)
    (tmp_path / "bad").write_text("plv_nonsense")
    said = palaver("agent", "run", "--id", "worker", *words)
    assert (said.code, part in said.err) == (1, True), said
