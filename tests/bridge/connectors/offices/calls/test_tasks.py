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
from tests.bridge.connectors.offices.calls.staffed import Staffed, staffed
from tests.bridge.connectors.offices.clients import TIMEOUT, Client
from tests.federation.nodes import Node
from tests.support.tasks import error_code

READS = {"tasks": True}
DONE = {"meta": None, "content": [{"type": "text", "text": "3"}], "structuredContent": None, "isError": False}


@pytest.fixture
async def house(node: Node) -> AsyncIterator[Staffed]:
    async with staffed(node) as made:
        yield made


async def boss(house: Staffed, answer: Any = None, declares: Any = READS) -> Client:
    agent = await house.running.agent(token=house.token, declares=declares)
    agent.answers[TASK] = answer
    await house.known("boss")
    return agent


def under_way() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_an_agent_that_reads_tasks_is_given_them(house: Staffed) -> None:
    """As an event, whose acknowledgement is the answer; meanwhile it is busy."""
    assert house.connector.runs_tasks
    assert house.connector.delivery is not None
    answer = under_way()
    agent = await boss(house, answer)
    made = await house.submit(
        "1", "boss", prompt="cook", context="so far", metadata={"a": 1}, timeout_ms=60_000
    )
    said = await agent.until(TASK)
    assert 50 < said.pop("deadline_secs") <= 60
    assert said.pop("work_id").isdigit()
    assert said == {
        "task_id": "task-1",
        "from": "coordinator@living",
        "prompt": "cook",
        "context": "so far",
        "system_prompt": None,
        "model": None,
        "metadata": {"a": 1},
    }
    await house.known("boss", lambda agent: agent.status == "busy")
    answer.set_result({"success": True, "output": "cooked"})
    task = await house.ended(made.key)
    assert task.answer is not None
    assert (task.state, task.answer.output, task.answer.exit_code) == (State.DONE, "cooked", 0)
    await house.known("boss", lambda agent: agent.status == "idle")


async def test_what_the_agent_cannot_do_it_says(house: Staffed) -> None:
    """In its words; what is no answer at all is one that says so."""
    agent = await boss(house)
    for number, (said, part) in enumerate(
        [
            ({"success": False, "output": "burnt"}, "burnt"),
            ({"error": "no fire"}, "no fire"),
            (None, "without an answer"),
            ("done", "without an answer"),
        ]
    ):
        agent.answers[TASK] = said
        made = await house.submit(f"{number}", "boss")
        task = await house.ended(made.key)
        assert task.answer is not None
        assert (task.answer.success, task.answer.error_code) == (False, None)
        assert part in task.answer.output
    agent.answers[TASK] = {"error": {"code": "AGENT_BUSY", "reason": "Later."}}
    made = await house.submit("busy", "boss")
    assert error_code((await house.ended(made.key)).answer) is ErrorCode.AGENT_BUSY


@pytest.mark.parametrize("declares", [None, {}, {"tasks": "yes"}, {"tasks": False}, [], "tasks", True])
async def test_whoever_has_not_declared_it_gets_none(house: Staffed, declares: Any) -> None:
    """The asker is told at once, and the Agent, which may know no such event, hears nothing."""
    agent = await boss(house, declares=declares)
    assert (await house.known("boss")).capabilities == ()
    made = await house.submit("1", "boss")
    answer = (await house.ended(made.key)).answer
    assert error_code(answer) is ErrorCode.INVALID_PAYLOAD
    assert answer is not None
    assert "does not read tasks" in answer.output
    assert not any(event == TASK for event, _ in await agent.quiet())


async def test_an_agent_does_one_after_the_other(house: Staffed) -> None:
    """What is asked meanwhile waits for it."""
    first, second = under_way(), under_way()
    answers = [first, second]
    agent = await boss(house, lambda said: answers.pop(0))
    one, other = await house.submit("1", "boss"), await house.submit("2", "boss")
    await agent.until(TASK)
    assert (await house.until(other.key, lambda task: True)).state is State.QUEUED
    assert not any(event == TASK for event, _ in await agent.quiet())
    first.set_result({"success": True, "output": "1"})
    await agent.until(TASK)
    second.set_result({"success": True, "output": "2"})
    outputs = [(await house.ended(made.key)).answer for made in (one, other)]
    assert [answer and answer.output for answer in outputs] == ["1", "2"]


async def test_an_agent_that_leaves_has_done_nothing_that_is_known(house: Staffed) -> None:
    """Whoever asked is told at once; what had only waited for it ends with it."""
    agent = await boss(house, under_way())
    begun, waiting = await house.submit("1", "boss"), await house.submit("2", "boss")
    await agent.until(TASK)
    await agent.leave()
    answer = (await house.ended(begun.key)).answer
    assert error_code(answer) is ErrorCode.NODE_UNREACHABLE
    assert answer is not None
    assert answer.metadata["interrupted"] is True
    assert error_code((await house.ended(waiting.key)).answer) is ErrorCode.AGENT_NOT_FOUND
    gone = await house.known("boss", lambda agent: not agent.is_online)
    assert gone.gone_reason == "it has left its office"
    assert "has gone" in house.routes.explain(house.address("boss"))


async def test_an_agent_whose_connection_breaks_has_left(house: Staffed) -> None:
    agent = await boss(house, under_way())
    made = await house.submit("1", "boss")
    await agent.until(TASK)
    await agent.close()
    assert error_code((await house.ended(made.key)).answer) is ErrorCode.NODE_UNREACHABLE


async def test_what_is_taken_back_the_agent_is_told_of(house: Staffed) -> None:
    """By the name that it was given with; and so when the time is over."""
    agent = await boss(house, under_way())
    made = await house.submit("1", "boss")
    said = await agent.until(TASK)
    await house.tasks.cancel(made.key, "alice")
    told = await agent.until(CANCEL)
    assert told == {"task_id": "task-1", "work_id": said["work_id"]}
    late = await house.submit("2", "boss", timeout_ms=300)
    said = await agent.until(TASK)
    assert (await agent.until(CANCEL))["work_id"] == said["work_id"]
    assert (await house.ended(late.key)).state is State.TIMED_OUT


async def test_an_answer_of_the_next_connection_does_not_count(house: Staffed) -> None:
    """Of the same name: the task was not given to it."""
    agent = await boss(house, under_way())
    made = await house.submit("1", "boss")
    await agent.until(TASK)
    await agent.close()
    assert error_code((await house.ended(made.key)).answer) is ErrorCode.NODE_UNREACHABLE
    await house.known("boss", lambda agent: not agent.is_online)
    again = await boss(house, {"success": True, "output": "new"})
    assert not any(event == TASK for event, _ in await again.quiet())
    other = await house.submit("2", "boss")
    answer = (await house.ended(other.key)).answer
    assert answer is not None
    assert answer.output == "new"


async def test_what_was_begun_ends_with_the_node(node: Node) -> None:
    """It is not given a second time; what had not been begun is, when the Agent is back."""
    async with staffed(node) as house:
        agent = await boss(house, under_way())
        begun, waiting = await house.submit("1", "boss"), await house.submit("2", "boss")
        await agent.until(TASK)
        # Before its Agent goes.
        await house.core.close()
    async with staffed(node) as house:
        answer = (await house.ended(begun.key)).answer
        assert error_code(answer) is ErrorCode.NODE_UNREACHABLE
        assert answer is not None
        assert answer.metadata["interrupted"] is True
        agent = await boss(house, {"success": True, "output": "again"})
        assert (await agent.until(TASK))["task_id"] == "task-2"
        answer = (await house.ended(waiting.key)).answer
        assert answer is not None
        assert answer.output == "again"


async def test_a_task_for_a_computer_is_a_call(house: Staffed) -> None:
    """As its metadata says; it is written down as a call by whoever asked."""
    computer = await house.running.computer(token=house.token)
    computer.answers[TOOL_CALL] = DONE
    await house.known("hands")
    for request_id, params in (("1", {"a": 1}), ("2", '{"a": 1}')):
        made = await house.submit(request_id, "hands", metadata={"tool": "add", "params": params})
        task = await house.ended(made.key)
        assert task.answer is not None
        assert (task.state, task.answer.output) == (State.DONE, "3")
        said = await computer.until(TOOL_CALL)
        assert (said["agent"], said["tool_name"], said["params"]) == ("coordinator@living", "add", {"a": 1})
        assert said["req_id"] == task.answer.metadata["call_id"]
    async with house.node.database.transaction(readonly=True) as connection:
        calls = await office_records.list_calls(connection, "a", None, 10)
    assert len(calls) == 2
    assert all(call.answer is not None for call in calls)
    assert (await house.known("hands")).status == "idle"


@pytest.mark.parametrize(
    ("metadata", "part"),
    [
        ({}, "reads no words"),
        ({"tool": 1}, "name of a tool is text"),
        ({"tool": "add", "params": "{"}, "params is no JSON"),
        ({"tool": "add", "params": [1]}, "params is an object"),
    ],
)
async def test_words_alone_no_computer_reads(house: Staffed, metadata: dict[str, Any], part: str) -> None:
    """Whoever asked is told what to send."""
    computer = await house.running.computer(token=house.token)
    await house.known("hands")
    made = await house.submit("1", "hands", metadata=metadata)
    answer = (await house.ended(made.key)).answer
    assert error_code(answer) is ErrorCode.INVALID_PAYLOAD
    assert answer is not None
    assert part in answer.output
    assert '{"tool": "add", "params"' in answer.output
    assert not any(event == TOOL_CALL for event, _ in await computer.quiet())


async def test_a_computer_that_goes_is_answered_for(house: Staffed) -> None:
    """At once."""
    computer = await house.running.computer(token=house.token)
    computer.answers[TOOL_CALL] = under_way()
    await house.known("hands")
    made = await house.submit("1", "hands", metadata={"tool": "add"})
    await computer.until(TOOL_CALL)
    await computer.close()
    answer = (await house.ended(made.key)).answer
    assert error_code(answer) is ErrorCode.NODE_UNREACHABLE
    assert answer is not None
    assert answer.metadata["interrupted"] is True


async def test_a_call_that_is_taken_back_is_stopped(house: Staffed) -> None:
    """As any other."""
    computer = await house.running.computer(token=house.token)
    computer.answers[TOOL_CALL] = under_way()
    await house.known("hands")
    made = await house.submit("1", "hands", metadata={"tool": "add"})
    said = await computer.until(TOOL_CALL)
    await house.tasks.cancel(made.key, "alice")
    told = await computer.until("notify:tool_call_cancel")
    assert told == {"agent": "coordinator@living", "req_id": said["req_id"]}


async def test_a_tool_that_fails_fails_the_task(house: Staffed) -> None:
    """With its words."""
    computer = await house.running.computer(token=house.token)
    computer.answers[TOOL_CALL] = {**DONE, "isError": True}
    await house.known("hands")
    made = await house.submit("1", "hands", metadata={"tool": "add"})
    answer = (await house.ended(made.key)).answer
    assert answer is not None
    assert (answer.success, answer.output, answer.exit_code, answer.error_code) == (False, "3", 1, None)


async def test_tools_are_capabilities_once_they_are_known(house: Staffed) -> None:
    """Whoever asks for them."""
    computer = await house.running.computer(token=house.token)
    assert (await house.known("hands")).capabilities == ()
    tools = [{"name": name, "description": ""} for name in ("add", "sub")]
    computer.answers["client:get_tools"] = {"tools": tools, "req_id": "tools"}
    agent = await boss(house)
    await agent.tools("hands")
    known = await house.known("hands", lambda agent: agent.capabilities)
    assert (known.runtime, known.capabilities) == ("a2c-smcp", ("add", "sub"))
    assert [one.agent_id for one in house.routes.table.find_capable(["sub"])] == ["a/hands"]
    async with asyncio.timeout(TIMEOUT):
        assert (await house.known("boss")).capabilities == ("task_execution",)
