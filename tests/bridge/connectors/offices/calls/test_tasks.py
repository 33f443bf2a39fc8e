"""Tasks for members of offices."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridge.connectors.offices.calls.tasks import CANCEL, TASK
from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import State
from storage.offices import records as office_records
from tests.bridge.connectors.offices.calls.core_setup import CoreSetup, core_with_offices
from tests.bridge.connectors.offices.clients import TIMEOUT, Client
from tests.federation.nodes import Node
from tests.support.tasks import error_code

READS = {"tasks": True}
DONE = {"meta": None, "content": [{"type": "text", "text": "3"}], "structuredContent": None, "isError": False}


@pytest.fixture
async def setup(node: Node) -> AsyncIterator[CoreSetup]:
    async with core_with_offices(node) as made:
        yield made


async def boss(setup: CoreSetup, answer: Any = None, declares: Any = READS) -> Client:
    agent = await setup.running.agent(token=setup.token, declares=declares)
    agent.answers[TASK] = answer
    await setup.known("boss")
    return agent


def pending() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_an_agent_receives_its_tasks(setup: CoreSetup) -> None:
    """As an event whose acknowledgement is the answer. Meanwhile the Agent is busy."""
    assert setup.connector.runs_tasks
    assert setup.connector.delivery is not None
    answer = pending()
    agent = await boss(setup, answer)
    made = await setup.submit("1", "boss", prompt="cook", context="so far", metadata={"a": 1}, timeout_ms=60_000)
    payload = await agent.wait_for(TASK)
    assert 50 < payload.pop("deadline_secs") <= 60
    assert payload.pop("work_id").isdigit()
    assert payload == {
        "task_id": "task-1",
        "from": "coordinator@living",
        "prompt": "cook",
        "context": "so far",
        "system_prompt": None,
        "model": None,
        "metadata": {"a": 1},
    }
    await setup.known("boss", lambda agent: agent.status == "busy")
    answer.set_result({"success": True, "output": "cooked"})
    task = await setup.ended(made.key)
    assert task.answer is not None
    assert (task.state, task.answer.output, task.answer.exit_code) == (State.DONE, "cooked", 0)
    await setup.known("boss", lambda agent: agent.status == "idle")


async def test_an_agent_can_refuse_a_task(setup: CoreSetup) -> None:
    """With its own message. An acknowledgement without an answer is reported as such."""
    agent = await boss(setup)
    for number, (acknowledgement, part) in enumerate(
        [
            ({"success": False, "output": "burnt"}, "burnt"),
            ({"error": "no fire"}, "no fire"),
            (None, "without an answer"),
            ("done", "without an answer"),
        ]
    ):
        agent.answers[TASK] = acknowledgement
        made = await setup.submit(f"{number}", "boss")
        task = await setup.ended(made.key)
        assert task.answer is not None
        assert (task.answer.success, task.answer.error_code) == (False, None)
        assert part in task.answer.output
    agent.answers[TASK] = {"error": {"code": "AGENT_BUSY", "reason": "Later."}}
    made = await setup.submit("busy", "boss")
    assert error_code((await setup.ended(made.key)).answer) is ErrorCode.AGENT_BUSY


@pytest.mark.parametrize("declares", [None, {}, {"tasks": "yes"}, {"tasks": False}, [], "tasks", True])
async def test_an_agent_without_the_declaration_receives_no_tasks(setup: CoreSetup, declares: Any) -> None:
    """The requester gets an error at once, because the Agent may not know the event."""
    agent = await boss(setup, declares=declares)
    assert (await setup.known("boss")).capabilities == ()
    made = await setup.submit("1", "boss")
    answer = (await setup.ended(made.key)).answer
    assert error_code(answer) is ErrorCode.INVALID_PAYLOAD
    assert answer is not None
    assert "does not accept tasks" in answer.output
    assert not any(event == TASK for event, _ in await agent.unexpected())


async def test_an_agent_receives_one_task_at_a_time(setup: CoreSetup) -> None:
    """Other tasks are queued."""
    first, second = pending(), pending()
    answers = [first, second]
    agent = await boss(setup, lambda payload: answers.pop(0))
    one, other = await setup.submit("1", "boss"), await setup.submit("2", "boss")
    await agent.wait_for(TASK)
    assert (await setup.until(other.key, lambda task: True)).state is State.QUEUED
    assert not any(event == TASK for event, _ in await agent.unexpected())
    first.set_result({"success": True, "output": "1"})
    await agent.wait_for(TASK)
    second.set_result({"success": True, "output": "2"})
    outputs = [(await setup.ended(made.key)).answer for made in (one, other)]
    assert [answer and answer.output for answer in outputs] == ["1", "2"]


async def test_tasks_end_when_their_agent_leaves(setup: CoreSetup) -> None:
    """The running one with an unknown outcome, the queued ones because there is no such agent."""
    agent = await boss(setup, pending())
    begun, waiting = await setup.submit("1", "boss"), await setup.submit("2", "boss")
    await agent.wait_for(TASK)
    await agent.leave()
    answer = (await setup.ended(begun.key)).answer
    assert error_code(answer) is ErrorCode.NODE_UNREACHABLE
    assert answer is not None
    assert answer.metadata["interrupted"] is True
    assert error_code((await setup.ended(waiting.key)).answer) is ErrorCode.AGENT_NOT_FOUND
    gone = await setup.known("boss", lambda agent: not agent.is_online)
    assert gone.gone_reason == "it has left its office"
    assert "is offline" in setup.routes.explain(setup.address("boss"))


async def test_a_broken_connection_counts_as_leaving(setup: CoreSetup) -> None:
    agent = await boss(setup, pending())
    made = await setup.submit("1", "boss")
    await agent.wait_for(TASK)
    await agent.close()
    assert error_code((await setup.ended(made.key)).answer) is ErrorCode.NODE_UNREACHABLE


async def test_an_agent_is_notified_of_a_cancelled_task(setup: CoreSetup) -> None:
    """With the id of the task, also when it times out."""
    agent = await boss(setup, pending())
    made = await setup.submit("1", "boss")
    payload = await agent.wait_for(TASK)
    await setup.tasks.cancel(made.key, "alice")
    cancel = await agent.wait_for(CANCEL)
    assert cancel == {"task_id": "task-1", "work_id": payload["work_id"]}
    late = await setup.submit("2", "boss", timeout_ms=300)
    payload = await agent.wait_for(TASK)
    assert (await agent.wait_for(CANCEL))["work_id"] == payload["work_id"]
    assert (await setup.ended(late.key)).state is State.TIMED_OUT


async def test_a_task_is_bound_to_its_connection(setup: CoreSetup) -> None:
    """A later connection with the same name was not given the task."""
    agent = await boss(setup, pending())
    made = await setup.submit("1", "boss")
    await agent.wait_for(TASK)
    await agent.close()
    assert error_code((await setup.ended(made.key)).answer) is ErrorCode.NODE_UNREACHABLE
    await setup.known("boss", lambda agent: not agent.is_online)
    again = await boss(setup, {"success": True, "output": "new"})
    assert not any(event == TASK for event, _ in await again.unexpected())
    other = await setup.submit("2", "boss")
    answer = (await setup.ended(other.key)).answer
    assert answer is not None
    assert answer.output == "new"


async def test_running_tasks_end_with_the_node(node: Node) -> None:
    """They are not delivered again. Queued tasks are delivered when the Agent is back."""
    async with core_with_offices(node) as setup:
        agent = await boss(setup, pending())
        begun, waiting = await setup.submit("1", "boss"), await setup.submit("2", "boss")
        await agent.wait_for(TASK)
        # The core is closed before its Agent disconnects.
        await setup.core.close()
    async with core_with_offices(node) as setup:
        answer = (await setup.ended(begun.key)).answer
        assert error_code(answer) is ErrorCode.NODE_UNREACHABLE
        assert answer is not None
        assert answer.metadata["interrupted"] is True
        agent = await boss(setup, {"success": True, "output": "again"})
        assert (await agent.wait_for(TASK))["task_id"] == "task-2"
        answer = (await setup.ended(waiting.key)).answer
        assert answer is not None
        assert answer.output == "again"


async def test_a_task_for_a_computer_is_a_call(setup: CoreSetup) -> None:
    """As described by its metadata. It is recorded as a call by the requester."""
    computer = await setup.running.computer(token=setup.token)
    computer.answers[TOOL_CALL] = DONE
    await setup.known("hands")
    for request_id, params in (("1", {"a": 1}), ("2", '{"a": 1}')):
        made = await setup.submit(request_id, "hands", metadata={"tool": "add", "params": params})
        task = await setup.ended(made.key)
        assert task.answer is not None
        assert (task.state, task.answer.output) == (State.DONE, "3")
        payload = await computer.wait_for(TOOL_CALL)
        assert (payload["agent"], payload["tool_name"], payload["params"]) == ("coordinator@living", "add", {"a": 1})
        assert payload["req_id"] == task.answer.metadata["call_id"]
    async with setup.node.database.transaction(readonly=True) as connection:
        calls = await office_records.list_calls(connection, "a", None, 10)
    assert len(calls) == 2
    assert all(call.answer is not None for call in calls)
    assert (await setup.known("hands")).status == "idle"


@pytest.mark.parametrize(
    ("metadata", "part"),
    [
        ({}, "does not read prompts"),
        ({"tool": 1}, "name of a tool must be text"),
        ({"tool": "add", "params": "{"}, "params is not valid JSON"),
        ({"tool": "add", "params": [1]}, "params must be an object"),
    ],
)
async def test_a_computer_needs_metadata(setup: CoreSetup, metadata: dict[str, Any], part: str) -> None:
    """The error tells the requester what to send."""
    computer = await setup.running.computer(token=setup.token)
    await setup.known("hands")
    made = await setup.submit("1", "hands", metadata=metadata)
    answer = (await setup.ended(made.key)).answer
    assert error_code(answer) is ErrorCode.INVALID_PAYLOAD
    assert answer is not None
    assert part in answer.output
    assert '{"tool": "add", "params"' in answer.output
    assert not any(event == TOOL_CALL for event, _ in await computer.unexpected())


async def test_a_task_ends_if_its_computer_disconnects(setup: CoreSetup) -> None:
    """The requester does not wait for the deadline."""
    computer = await setup.running.computer(token=setup.token)
    computer.answers[TOOL_CALL] = pending()
    await setup.known("hands")
    made = await setup.submit("1", "hands", metadata={"tool": "add"})
    await computer.wait_for(TOOL_CALL)
    await computer.close()
    answer = (await setup.ended(made.key)).answer
    assert error_code(answer) is ErrorCode.NODE_UNREACHABLE
    assert answer is not None
    assert answer.metadata["interrupted"] is True


async def test_cancelling_a_task_cancels_its_call(setup: CoreSetup) -> None:
    """Like any other call."""
    computer = await setup.running.computer(token=setup.token)
    computer.answers[TOOL_CALL] = pending()
    await setup.known("hands")
    made = await setup.submit("1", "hands", metadata={"tool": "add"})
    payload = await computer.wait_for(TOOL_CALL)
    await setup.tasks.cancel(made.key, "alice")
    cancel = await computer.wait_for("notify:tool_call_cancel")
    assert cancel == {"agent": "coordinator@living", "req_id": payload["req_id"]}


async def test_a_failed_tool_fails_the_task(setup: CoreSetup) -> None:
    """With the tool's output."""
    computer = await setup.running.computer(token=setup.token)
    computer.answers[TOOL_CALL] = {**DONE, "isError": True}
    await setup.known("hands")
    made = await setup.submit("1", "hands", metadata={"tool": "add"})
    answer = (await setup.ended(made.key)).answer
    assert answer is not None
    assert (answer.success, answer.output, answer.exit_code, answer.error_code) == (False, "3", 1, None)


async def test_known_tools_are_capabilities(setup: CoreSetup) -> None:
    """Whichever request has made them known."""
    computer = await setup.running.computer(token=setup.token)
    assert (await setup.known("hands")).capabilities == ()
    tools = [{"name": name, "description": ""} for name in ("add", "sub")]
    computer.answers["client:get_tools"] = {"tools": tools, "req_id": "tools"}
    agent = await boss(setup)
    await agent.tools("hands")
    known = await setup.known("hands", lambda agent: agent.capabilities)
    assert (known.runtime, known.capabilities) == ("a2c-smcp", ("add", "sub"))
    assert [one.agent_id for one in setup.routes.table.find_capable(["sub"])] == ["a/hands"]
    async with asyncio.timeout(TIMEOUT):
        assert (await setup.known("boss")).capabilities == ("task_execution",)
