"""`palaver task send` and `wait`."""

import asyncio
from typing import Any

import pytest

from bridge.people.requester import requesting_person
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.view import EXIT_CODES
from storage.database import Database
from storage.errors import LocalError
from tests.bridge.control.agents.test_in_a_name import ALICE, BOB, FOR_PEOPLE
from tests.support.operated import Operated, item, operated


async def test_a_task_is_sent_and_answered(node: Operated) -> None:
    """With all fields of the request. The first item has the task's key."""
    await node.local_agents.register("worker")
    given: dict[str, Any] = {
        "to": "worker",
        "prompt": "Do it.",
        "context": "Before.",
        "system_prompt": "Be brief.",
        "model": "large",
        "metadata": {"a": "b"},
        "timeout_ms": 5_000,
        "id": "one",
        "wait": True,
    }
    async with node.stream("task-send", **given) as items:
        accepted = await item(items, type="accepted")
        assert (accepted["task"], accepted["to"], accepted["again"]) == ("one@here.test", "worker@here.test", False)
        task = await node.given()
        assert task.request.content() == {
            "prompt": "Do it.",
            "context": "Before.",
            "system_prompt": "Be brief.",
            "model": "large",
            "metadata": {"a": "b"},
        }
        assert task.deadline - task.received_at == 5_000
        await node.local_agents.run(task, Answer(True, "Done.", 0), {"message": "halfway"})
        assert (await item(items, type="progress"))["text"] == "halfway"
        assert (await item(items, type="result"))["output"] == "Done."
        assert [one async for one in items] == []


async def test_without_waiting_the_key_is_returned(node: Operated) -> None:
    """An id is generated if none is given. The answer is stored for later commands."""
    await node.local_agents.register("worker")
    [accepted] = await node.whole("task-send", to="worker", prompt="Do it.")
    assert accepted["task"].startswith("operator-")
    await node.local_agents.run(await node.given(), Answer(True, "Done.", 0))
    received = await node.whole("task-wait", task=accepted["task"])
    assert received[-1]["output"] == "Done."


async def test_the_same_id_is_the_same_task(node: Operated) -> None:
    """The task is not executed again. Another request with the same id is refused."""
    await node.local_agents.register("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    await node.local_agents.run(await node.given(), Answer(True, "Done.", 0))
    received = await node.whole("task-send", to="worker", prompt="Do it.", id="one", wait=True)
    assert (received[0]["again"], received[-1]["output"]) == (True, "Done.")
    assert node.local_agents.delivered.empty()
    [refused] = await node.whole("task-send", to="worker", prompt="Do that.", id="one", wait=True)
    assert (refused["type"], refused["error_code"]) == ("refused", "INVALID_PAYLOAD")


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_each_error_code_is_reported(node: Operated, code: ErrorCode) -> None:
    """With advice and an exit code."""
    await node.local_agents.register("worker")
    async with node.stream("task-send", to="worker", prompt="Do it.", id="one", wait=True) as items:
        await item(items, type="accepted")
        await node.core.tasks.fail((await node.given()).key, TaskError(code, "It is so."))
        result = await item(items, type="result")
    assert (result["error_code"], result["exit"], result["output"]) == (code, EXIT_CODES[code], "It is so.")
    assert result["advice"] == code.advice


async def test_an_unknown_agent_is_reported(node: Operated) -> None:
    """A task to a complete address fails. A single id or an invalid address is refused."""
    received = await node.whole("task-send", to="nobody@here.test", prompt="Do it.", id="one", wait=True)
    assert (received[-1]["type"], received[-1]["error_code"]) == ("result", "AGENT_NOT_FOUND")
    for to, code in (("nobody", "AGENT_NOT_FOUND"), ("a@b@c", "INVALID_PAYLOAD")):
        [refused] = await node.whole("task-send", to=to, prompt="Do it.", wait=True)
        assert (refused["type"], refused["error_code"], refused["exit"]) == (
            "refused",
            code,
            EXIT_CODES[ErrorCode(code)],
        )


async def test_a_queued_task_is_reported(node: Operated) -> None:
    """The stream has the state `queued`."""
    await node.local_agents.register("worker")
    node.local_agents.settings_of["worker"] = AgentSettings(1, 5)
    await node.whole("task-send", to="worker", prompt="First.", id="one")
    async with node.stream("task-send", to="worker", prompt="Second.", id="two", wait=True) as items:
        await item(items, type="state", state="queued")
        await node.local_agents.run(await node.given(), Answer(True, "Done.", 0))
        await node.local_agents.run(await node.given(), Answer(True, "Done too.", 0))
        assert (await item(items, type="result"))["output"] == "Done too."


async def test_a_request_that_is_too_large_is_refused(node: Operated) -> None:
    """By the task service, or by the validation of arguments."""
    await node.local_agents.register("worker")
    [refused] = await node.whole("task-send", to="worker", prompt="x" * 300_000, wait=True)
    assert (refused["error_code"], "are allowed" in refused["reason"]) == ("INVALID_PAYLOAD", True)
    with pytest.raises(LocalError, match="metadata"):
        await node.whole("task-send", to="worker", prompt="x", metadata=dict.fromkeys(map(str, range(101)), ""))


async def test_a_task_survives_a_restart(node: Operated, database: Database) -> None:
    """Another process continues with it."""
    await node.local_agents.register("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    await node.given()
    await node.core.close()
    async with operated(database) as again:
        await again.local_agents.register("worker")
        waiting = asyncio.create_task(again.whole("task-wait", task="one"))
        await again.local_agents.run(await again.given(), Answer(True, "Done.", 0))
        assert (await waiting)[-1]["output"] == "Done."


async def test_a_task_can_be_sent_in_a_persons_name(database: Database) -> None:
    """The person is its requester, and the operator can wait for it."""
    async with operated(database, for_people=FOR_PEOPLE) as node:
        await node.local_agents.register("worker")
        async with node.stream("task-send", to="worker", prompt="Do it.", **{"as": ALICE}, wait=True) as items:
            accepted = await item(items, type="accepted")
            assert accepted["from"] == "alice:their.server@here.test"
            task = await node.given()
            assert requesting_person(task.request, "here.test") == ALICE
            await node.local_agents.run(task, Answer(True, "Done.", 0))
            assert (await item(items, type="result"))["output"] == "Done."
        with pytest.raises(LocalError, match="cannot act for"):
            await node.whole("task-send", to="worker", prompt="Do it.", **{"as": BOB})
    assert node.local_agents.delivered.empty()
