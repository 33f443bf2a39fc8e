"""A command that is attached as an agent from another process."""

import asyncio
from pathlib import Path

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.attached import runner as runner_module
from bridge.agents.attached.attached import AttachedLimits
from bridge.agents.attached.runner_connection import AgentEndpoint
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import State
from storage.database import Database
from storage.errors import LocalError
from tests.bridge.agents.attached.api_running import api
from tests.bridge.agents.attached.running import TIMEOUT, place, running
from tests.bridge.agents.running import is_alive, process_in


@pytest.fixture(autouse=True)
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without delay."""
    monkeypatch.setattr(runner_module, "MIN_RETRY_DELAY", 0.02)


async def test_the_runner_does_tasks(database: Database, tmp_path: Path) -> None:
    """Like an agent of the node's own: prompt in, progress, answer out."""
    async with api(database, tmp_path) as one:
        script = 'read -r line; echo "looking" >&2; echo "$line in $PALAVER_TASK_CONTEXT"; exit 3'
        async with running(await place(one), script) as other:
            agent = await one.node.status_is(AgentStatus.IDLE)
            assert (agent.runtime, agent.capabilities) == ("claude", ("coding",))
            await one.node.ask("a", prompt="Cook\n", context="a hurry")
            task = await one.node.answered()
            assert task.answer == Answer(False, "Cook in a hurry\n", 3, {"stderr": "looking"})
            assert (await one.node.requester.heard.get())[1] == {"message": "looking"}
            await other.until("was answered")


async def test_tasks_run_up_to_the_registered_number(database: Database, tmp_path: Path) -> None:
    """One after the other, or concurrently."""
    async with api(database, tmp_path) as one:
        both = f"[ -e {tmp_path}/task-a -a -e {tmp_path}/task-b ]"
        script = f"touch {tmp_path}/$PALAVER_TASK_ID; until {both}; do sleep 0.01; done"
        async with running(await place(one), script, parallel=2):
            await one.node.status_is(AgentStatus.IDLE)
            for name in "abc":
                await one.node.ask(name)
            assert [(await one.node.answered()).state for _ in "abc"] == [State.DONE] * 3


async def test_a_cancelled_task_is_stopped(database: Database, tmp_path: Path) -> None:
    """With all its processes."""
    async with api(database, tmp_path) as one:
        script = f"echo $$ > {tmp_path}/it; exec sleep 1000"
        async with running(await place(one), script) as other:
            await one.node.status_is(AgentStatus.IDLE)
            await one.node.ask("a")
            it = await process_in(tmp_path / "it")
            await one.node.tasks.cancel((await one.node.task("a")).key, "somebody")
            await other.until("was cancelled")
            while is_alive(it):
                await asyncio.sleep(0.01)


async def test_a_begun_task_continues_while_the_node_is_unavailable(database: Database, tmp_path: Path) -> None:
    """It is answered when the node is back, and is not done twice."""
    script = f"echo x >> {tmp_path}/count; until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo done"
    async with api(database, tmp_path, killed=True) as one:
        where = await place(one)
        async with running(where, script) as other:
            await one.node.status_is(AgentStatus.IDLE)
            await one.node.ask("a")
            await other.until("Working on")
            await one.listener.close(TIMEOUT)
            await other.until("Trying again")
            (tmp_path / "go").touch()
            async with api(database, tmp_path, port=one.port) as again:
                assert (await again.node.answered()).answer == Answer(True, "done\n", 0)
                await other.until("was answered")
    assert (tmp_path / "count").read_text() == "x\n"


async def test_the_first_stop_finishes_tasks(database: Database, tmp_path: Path) -> None:
    """The runner takes no more tasks, and then unregisters the agent."""
    async with api(database, tmp_path) as one:
        script = f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo done"
        async with running(await place(one), script, parallel=2) as other:
            await one.node.status_is(AgentStatus.IDLE)
            await one.node.ask("a")
            await other.until("Working on")
            other.runner.stop()
            await one.node.ask("b")
            refused = (await one.node.answered()).answer
            assert refused is not None
            assert refused.error_code is ErrorCode.AGENT_BUSY
            (tmp_path / "go").touch()
            assert (await one.node.answered()).state is State.DONE
            async with asyncio.timeout(TIMEOUT):
                await other.task
        gone = await one.node.status_is(AgentStatus.SHUTDOWN)
        assert gone.gone_reason == "shutdown"


async def test_the_second_stop_ends_tasks(database: Database, tmp_path: Path) -> None:
    """The requester gets an error."""
    async with api(database, tmp_path) as one:
        script = f"echo $$ > {tmp_path}/it; exec sleep 1000"
        async with running(await place(one), script) as other:
            await one.node.status_is(AgentStatus.IDLE)
            await one.node.ask("a")
            it = await process_in(tmp_path / "it")
            other.runner.stop()
            other.runner.stop()
            answer = (await one.node.answered()).answer
            assert answer is not None
            assert (answer.error_code, answer.metadata["interrupted"]) == (ErrorCode.NODE_UNREACHABLE, True)
            async with asyncio.timeout(TIMEOUT):
                await other.task
            assert not is_alive(it)


async def test_without_tasks_the_runner_stops_at_once(database: Database, tmp_path: Path) -> None:
    """Also without a node."""
    async with api(database, tmp_path) as one:
        where = await place(one)
    async with running(where, "true") as other:
        await other.until("Trying again")
        other.runner.stop()
        async with asyncio.timeout(TIMEOUT):
            await other.task


async def test_the_third_stop_does_not_wait_for_the_node(database: Database, tmp_path: Path) -> None:
    """Although the answer was not delivered."""
    async with api(database, tmp_path) as one, running(await place(one), "sleep 1000", grace=0.1) as other:
        await one.node.status_is(AgentStatus.IDLE)
        await one.node.ask("a")
        await other.until("Working on")
        await one.listener.close(TIMEOUT)
        await other.until("Trying again")
        for _ in range(3):
            other.runner.stop()
        async with asyncio.timeout(TIMEOUT):
            await other.task


async def test_a_replaced_program_stops(database: Database, tmp_path: Path) -> None:
    """Otherwise the two would replace each other for ever."""
    async with api(database, tmp_path) as one, running(await place(one), "true") as first:
        await first.until("Attached as worker@here")
        async with running(await place(one), "true") as second:
            await second.until("Attached")
            with pytest.raises(LocalError, match="Another program is attached as the agent worker now"):
                await asyncio.wait_for(first.task, TIMEOUT)
            await one.node.ask("a")
            assert (await one.node.answered()).state is State.DONE


async def test_a_refused_program_ends_with_an_error(database: Database, tmp_path: Path) -> None:
    """The error says what to do."""
    async with api(database, tmp_path) as one:
        good = await place(one)
        bad = AgentEndpoint(good.url, "worker", good.token[:-1] + ("a" if good.token[-1] != "a" else "b"))
        for where, part in (
            (bad, "token is unknown"),
            (AgentEndpoint(good.url, "other", good.token), "belongs to another agent"),
            (AgentEndpoint(good.url + "/elsewhere", "worker", good.token), "no API"),
        ):
            async with running(where, "true") as other:
                with pytest.raises(LocalError, match=part):
                    await asyncio.wait_for(other.task, TIMEOUT)


async def test_a_program_that_timed_out_registers_again(database: Database, tmp_path: Path) -> None:
    """By itself."""
    limits = AttachedLimits(heartbeat=0.05)
    async with api(database, tmp_path, attached_limits=limits) as one, running(await place(one), "true") as other:
        await other.until("Attached")
        await one.node.attached.unregister("worker", other.runner._session, "timeout")
        await other.until("Attached", times=2)
        await one.node.ask("a")
        assert (await one.node.answered()).state is State.DONE


async def test_the_runner_sends_heartbeats(database: Database, tmp_path: Path) -> None:
    """As often as the node requires; their responses report cancelled tasks."""
    async with (
        api(database, tmp_path, attached_limits=AttachedLimits(heartbeat=0.05)) as one,
        running(await place(one), "sleep 1000", grace=0.1) as other,
    ):
        await one.node.status_is(AgentStatus.IDLE)
        await one.node.ask("a")
        await other.until("Working on")
        session = one.node.attached.session("worker", other.runner._session)
        work_id = str((await one.node.task("a")).id)
        session._tasks.pop(work_id)
        session.attachment.withdraw(work_id)
        await other.until("was cancelled")


async def test_a_command_that_does_not_work_is_reported(database: Database, tmp_path: Path) -> None:
    """The agent has failed, and recovers when the command works."""
    program = tmp_path / "program"
    async with api(database, tmp_path) as one, running(await place(one), "", program=str(program)) as other:
        await other.until("Attached")
        await one.node.ask("a")
        assert (await one.node.answered()).state is State.FAILED
        await one.node.status_is(AgentStatus.ERROR)
        await other.until("does not work")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o700)
        await one.node.status_is(AgentStatus.IDLE)
        await one.node.ask("b")
        assert (await one.node.answered()).state is State.DONE
