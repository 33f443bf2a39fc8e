"""Agents that the node runs itself, with a real task service."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.local.configured import CONNECTOR
from bridge.config.agents import Agent
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.messages import Due
from bridge.tasks.task import State, Task
from storage.database import Database
from tests.bridge.agents.agent_node import agent_node
from tests.bridge.agents.running import TIMEOUT, end_of, is_alive, process_in
from tests.support.agents import address

ROOT = Path(__file__).parents[4]

# The task service's clock stands still far from now, so that only the tested limit can expire.


def sh(script: str, agent_id: str = "worker", **changed: Any) -> Agent:
    return Agent(id=agent_id, command=["/bin/sh", "-c", script], **changed)


async def until_exists(file: Path) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not file.exists():
            await asyncio.sleep(0.01)


async def test_a_task_is_done_by_a_command(database: Database, tmp_path: Path) -> None:
    """Prompt in, answer out, and progress is forwarded."""
    agent = sh('read -r line; echo "looking" >&2; sleep 0.1; echo "$line for $PALAVER_TASK_FROM"')
    async with agent_node(database, tmp_path, [agent]) as node:
        assert (await node.status_is(AgentStatus.IDLE)).connector == CONNECTOR
        await node.ask("a", prompt="Cook\n")
        assert await node.requester.heard.get() == ((await node.task("a")).key, {"message": "looking"})
        task = await node.answered()
        assert (task.state, task.answer) == (State.DONE, Answer(True, "Cook for coordinator@living\n", 0))
        await node.status_is(AgentStatus.IDLE)


async def test_each_agent_has_a_private_directory(database: Database, tmp_path: Path) -> None:
    """For any id; other users of the machine have no access."""
    agent = Agent(id="../up", command=["sh", "-c", "pwd; stat -c %a ."])
    async with agent_node(database, tmp_path / "agents", [agent]) as node:
        await node.ask("a", "../up@here")
        answer = (await node.answered()).answer
    assert answer is not None
    assert answer.output == f"{tmp_path.resolve()}/agents/%2E%2E%2Fup\n700\n"


async def test_tasks_run_one_after_the_other(database: Database, tmp_path: Path) -> None:
    """While the agent is busy, others are queued."""
    script = f"mkdir {tmp_path}/only && sleep 0.05 && rmdir {tmp_path}/only && echo $PALAVER_TASK_ID"
    async with agent_node(database, tmp_path, [sh(script)]) as node:
        for name in "abc":
            await node.ask(name)
        answers = [(await node.answered()).answer for _ in "abc"]
    assert answers == [Answer(True, f"task-{name}\n", 0) for name in "abc"]


async def test_several_tasks_run_concurrently(database: Database, tmp_path: Path) -> None:
    """As many as configured: each of these two waits for the other."""
    script = f"touch {tmp_path}/$PALAVER_TASK_ID; until [ -e {tmp_path}/task-a -a -e {tmp_path}/task-b ];do :; done"
    async with agent_node(database, tmp_path, [sh(script, parallel=2)]) as node:
        await node.ask("a")
        await node.ask("b")
        assert [(await node.answered()).state for _ in "ab"] == [State.DONE, State.DONE]


async def test_an_agent_without_a_queue_refuses_while_busy(database: Database, tmp_path: Path) -> None:
    """AGENT_BUSY, with its current task."""
    script = f"touch {tmp_path}/on; until [ -e {tmp_path}/go ]; do sleep 0.01; done"
    async with agent_node(database, tmp_path, [sh(script, busy="refuse")]) as node:
        await node.ask("a")
        busy = await node.status_is(AgentStatus.BUSY)
        assert busy.current_task == "task-a"
        await node.ask("b")
        refused = (await node.answered()).answer
        assert refused is not None
        assert (refused.error_code, refused.metadata["current_task"]) == (ErrorCode.AGENT_BUSY, "task-a")
        (tmp_path / "go").touch()
        assert (await node.answered()).state is State.DONE


async def test_a_failure_has_its_exit_code(database: Database, tmp_path: Path) -> None:
    """And no error code: the tool failed."""
    async with agent_node(database, tmp_path, [sh("echo partly; echo why >&2; exit 9")]) as node:
        await node.ask("a")
        task = await node.answered()
    assert (task.state, task.answer) == (State.FAILED, Answer(False, "partly\n", 9, {"stderr": "why"}))


async def test_the_time_limit_is_a_timeout(database: Database, tmp_path: Path) -> None:
    """The agent's own limit, although the task has more time."""
    async with agent_node(database, tmp_path, [sh("echo begun; sleep 1000", time_limit=0.5)]) as node:
        await node.ask("a")
        task = await node.answered()
    assert task.state is State.TIMED_OUT
    assert task.answer is not None
    assert (task.answer.error_code, task.answer.metadata["output"]) == (ErrorCode.TIMEOUT, "begun\n")


async def test_a_value_that_cannot_be_an_argument_is_refused(database: Database, tmp_path: Path) -> None:
    """INVALID_PAYLOAD, and nothing is started."""
    agent = Agent(id="worker", command=["touch", "{model}"])
    async with agent_node(database, tmp_path, [agent]) as node:
        await node.ask("a", model="--version")
        answer = (await node.answered()).answer
    assert answer is not None
    assert answer.error_code is ErrorCode.INVALID_PAYLOAD


async def test_a_cancelled_task_is_stopped(database: Database, tmp_path: Path) -> None:
    """With all its processes; then the next one starts."""
    script = f"[ $PALAVER_TASK_ID = task-b ] || {{ sleep 1000 & echo $! > {tmp_path}/child; wait; }}"
    async with agent_node(database, tmp_path, [sh(script)]) as node:
        await node.ask("a")
        child = await process_in(tmp_path / "child")
        await node.ask("b")
        await node.tasks.cancel((await node.task("a")).key, "somebody")
        assert (await node.answered()).state is State.CANCELLED
        assert (await node.answered()).state is State.DONE
        while Due.CANCEL in (await node.task("a")).due:
            await asyncio.sleep(0.01)
        assert not is_alive(child)


# -- commands that do not work --


async def test_a_missing_command(database: Database, tmp_path: Path) -> None:
    """The first task fails with an error without a path; then the agent has failed, and other tasks are
    refused. When the command exists, the agent recovers."""
    program = tmp_path / "program"
    async with agent_node(database, tmp_path, [Agent(id="worker", command=[str(program)])]) as node:
        await node.ask("a")
        answer = (await node.answered()).answer
        assert answer == Answer(False, "The command of this agent was not found.", 127, {"not_started": True})
        await node.status_is(AgentStatus.ERROR)
        assert str(program) in node.configured.problems()[address("worker@here")].sentence
        await node.ask("b")
        refused = (await node.answered()).answer
        assert refused is not None
        assert refused.error_code is ErrorCode.AGENT_BUSY
        program.write_text("#!/bin/sh\necho here\n")
        program.chmod(0o700)
        await node.status_is(AgentStatus.IDLE)
        await node.ask("c")
        assert (await node.answered()).answer == Answer(True, "here\n", 0)
        assert node.configured.problems() == {}


async def test_queued_tasks_survive_a_command_that_does_not_work(database: Database, tmp_path: Path) -> None:
    """They stay queued until it works."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nrm {program}\nuntil [ -e {tmp_path}/go ]; do sleep 0.01; done\n")
    program.chmod(0o700)
    async with agent_node(database, tmp_path, [Agent(id="worker", command=[str(program)])]) as node:
        for name in "abcd":
            await node.ask(name)
        (tmp_path / "go").touch()
        assert (await node.answered()).state is State.DONE
        assert (await node.answered()).state is State.FAILED
        await node.status_is(AgentStatus.ERROR)
        program.write_text("#!/bin/sh\necho here\n")
        program.chmod(0o700)
        assert [(await node.answered()).state for _ in "cd"] == [State.DONE, State.DONE]


# -- the node stops, and starts again --


async def test_a_stopping_node_ends_its_tasks(database: Database, tmp_path: Path) -> None:
    """NODE_UNREACHABLE for running tasks, at once; no process is left; queued tasks run later."""
    script = f"[ $PALAVER_TASK_ID = task-b ] || {{ echo $$ > {tmp_path}/it; exec sleep 1000; }}"
    async with agent_node(database, tmp_path, [sh(script)]) as node:
        await node.ask("a")
        it = await process_in(tmp_path / "it")
        await node.ask("b")
        key = (await node.task("a")).key
    assert not is_alive(it)
    gone = node.routes.agent(address("worker@here"))
    assert gone is not None
    assert (gone.is_online, gone.gone_reason) == (False, "shutdown")
    async with agent_node(database, tmp_path, [sh(script)]) as node:
        while (await node.answered()).key == key:
            pass  # the node may have been killed before it recorded the answer
        assert (await node.task("b")).state is State.DONE
        task = await node.tasks.task(key)
        assert task is not None
        assert task.answer is not None
        assert (task.answer.error_code, task.answer.metadata["interrupted"]) == (ErrorCode.NODE_UNREACHABLE, True)


async def test_a_killed_node_repeats_nothing(database: Database, tmp_path: Path) -> None:
    """`kill -9` with one running and one queued task: no process is left; after the next start the first is
    answered with an error, and the other runs once."""
    script = f"""
        echo $PALAVER_TASK_ID >> {tmp_path}/done
        [ $PALAVER_TASK_ID = task-b ] || {{ echo $$ > {tmp_path}/it; exec sleep 1000; }}
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bridge.agents.agent_node_process", database.address.url,
        str(tmp_path), script, "a", "b", cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        env={**os.environ, "PGPASSWORD": database.address.password or ""},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), TIMEOUT) == b"asked\n"
        it = await process_in(tmp_path / "it")
    finally:
        process.kill()
        await process.communicate()
    await end_of(it)
    async with agent_node(database, tmp_path, [sh(script)]) as node:
        answered: dict[str, Task] = {}
        while set(answered) != {"a", "b"}:
            task = await node.answered()
            answered[task.key.request_id] = task
    assert answered["b"].state is State.DONE
    lost = answered["a"].answer
    assert lost is not None
    assert (lost.error_code, lost.metadata["interrupted"]) == (ErrorCode.NODE_UNREACHABLE, True)
    assert (tmp_path / "done").read_text() == "task-a\ntask-b\n"


async def test_an_agent_that_is_no_longer_configured_is_offline(database: Database, tmp_path: Path) -> None:
    """Configured again it is idle, whatever its status was when the node was killed."""
    both = [sh("true"), sh("true", "other")]
    async with agent_node(database, tmp_path, both, killed=True):
        pass
    async with agent_node(database, tmp_path, both[:1]) as node:
        gone = node.routes.agent(address("other@here"))
        assert gone is not None
        assert gone.gone_reason == "removed"
        assert (await node.status_is(AgentStatus.IDLE)).is_online
    async with agent_node(database, tmp_path, both) as node:
        assert (await node.status_is(AgentStatus.IDLE, "other@here")).is_online


@pytest.mark.parametrize("said", [{"busy": "refuse"}, {"queue": 7, "parallel": 3}])
async def test_the_settings_of_an_agent(database: Database, tmp_path: Path, said: dict[str, Any]) -> None:
    """Its concurrent and queued tasks."""
    async with agent_node(database, tmp_path, [sh("true", **said)]) as node:
        agent = await node.status_is(AgentStatus.IDLE)
        settings = node.configured.settings(agent)
        assert settings is not None
        assert (settings.parallel, settings.queue_length) == ((1, 0) if "busy" in said else (3, 7))
        assert node.configured.settings(agent._replace(agent_id="other")) is None
