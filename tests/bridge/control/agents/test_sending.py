"""`palaver task send` and `wait`."""

import asyncio
from typing import Any

import pytest

from bridge.people.requester import in_name_of
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.view import CODES
from storage.database import Database
from storage.errors import LocalError
from tests.bridge.control.agents.test_in_a_name import ALICE, BOB, FOR_PEOPLE
from tests.support.operated import Operated, item, operated


async def test_a_task_is_given_and_answered(node: Operated) -> None:
    """With everything that was said of it; its key comes first."""
    await node.hands.come("worker")
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
        assert (accepted["task"], accepted["to"], accepted["again"]) == (
            "one@here.test",
            "worker@here.test",
            False,
        )
        task = await node.given()
        assert task.request.content() == {
            "prompt": "Do it.",
            "context": "Before.",
            "system_prompt": "Be brief.",
            "model": "large",
            "metadata": {"a": "b"},
        }
        assert task.deadline - task.received_at == 5_000
        await node.hands.do(task, Answer(True, "Done.", 0), {"message": "halfway"})
        assert (await item(items, type="progress"))["text"] == "halfway"
        assert (await item(items, type="result"))["output"] == "Done."
        assert [one async for one in items] == []


async def test_who_does_not_wait_has_the_key(node: Operated) -> None:
    """An id is found for it if none was chosen; the answer is kept for whoever asks."""
    await node.hands.come("worker")
    [accepted] = await node.whole("task-send", to="worker", prompt="Do it.")
    assert accepted["task"].startswith("operator-")
    await node.hands.do(await node.given(), Answer(True, "Done.", 0))
    said = await node.whole("task-wait", task=accepted["task"])
    assert said[-1]["output"] == "Done."


async def test_the_same_id_is_the_same_task(node: Operated) -> None:
    """Nothing is done twice; other work under that id is refused."""
    await node.hands.come("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    await node.hands.do(await node.given(), Answer(True, "Done.", 0))
    said = await node.whole("task-send", to="worker", prompt="Do it.", id="one", wait=True)
    assert (said[0]["again"], said[-1]["output"]) == (True, "Done.")
    assert node.hands.given.empty()
    [refused] = await node.whole("task-send", to="worker", prompt="Do that.", id="one", wait=True)
    assert (refused["type"], refused["error_code"]) == ("refused", "INVALID_PAYLOAD")


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_each_code_is_told(node: Operated, code: ErrorCode) -> None:
    """With what to do, and the code with which a command ends."""
    await node.hands.come("worker")
    async with node.stream("task-send", to="worker", prompt="Do it.", id="one", wait=True) as items:
        await item(items, type="accepted")
        await node.core.desk.fail((await node.given()).key, TaskError(code, "It is so."))
        result = await item(items, type="result")
    assert (result["error_code"], result["exit"], result["output"]) == (code, CODES[code], "It is so.")
    assert result["advice"] == code.advice


async def test_nobody_to_do_it(node: Operated) -> None:
    """An address that leads nowhere is answered, an id alone or what is no address is refused."""
    said = await node.whole("task-send", to="nobody@here.test", prompt="Do it.", id="one", wait=True)
    assert (said[-1]["type"], said[-1]["error_code"]) == ("result", "AGENT_NOT_FOUND")
    for to, code in (("nobody", "AGENT_NOT_FOUND"), ("a@b@c", "INVALID_PAYLOAD")):
        [refused] = await node.whole("task-send", to=to, prompt="Do it.", wait=True)
        assert (refused["type"], refused["error_code"], refused["exit"]) == (
            "refused",
            code,
            CODES[ErrorCode(code)],
        )


async def test_a_queue_is_told_of(node: Operated) -> None:
    """Whoever waits behind others knows it."""
    await node.hands.come("worker")
    node.hands.settings_of["worker"] = AgentSettings(1, 5)
    await node.whole("task-send", to="worker", prompt="First.", id="one")
    async with node.stream("task-send", to="worker", prompt="Second.", id="two", wait=True) as items:
        await item(items, type="state", state="queued")
        await node.hands.do(await node.given(), Answer(True, "Done.", 0))
        await node.hands.do(await node.given(), Answer(True, "Done too.", 0))
        assert (await item(items, type="result"))["output"] == "Done too."


async def test_what_is_too_much_is_refused(node: Operated) -> None:
    """By the desk in its own words, or before that with a sentence."""
    await node.hands.come("worker")
    [refused] = await node.whole("task-send", to="worker", prompt="x" * 300_000, wait=True)
    assert (refused["error_code"], "are allowed" in refused["reason"]) == ("INVALID_PAYLOAD", True)
    with pytest.raises(LocalError, match="metadata"):
        await node.whole(
            "task-send", to="worker", prompt="x", metadata=dict.fromkeys(map(str, range(101)), "")
        )


async def test_a_restart_loses_nothing(node: Operated, database: Database) -> None:
    """Another process goes on where this one has stopped."""
    await node.hands.come("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    await node.given()
    await node.core.close()
    async with operated(database) as again:
        await again.hands.come("worker")
        waiting = asyncio.create_task(again.whole("task-wait", task="one"))
        await again.hands.do(await again.given(), Answer(True, "Done.", 0))
        assert (await waiting)[-1]["output"] == "Done."


async def test_a_task_is_given_in_a_persons_name(database: Database) -> None:
    """It is the person's; the operator waits for it as for any other."""
    async with operated(database, for_people=FOR_PEOPLE) as node:
        await node.hands.come("worker")
        async with node.stream(
            "task-send", to="worker", prompt="Do it.", **{"as": ALICE}, wait=True
        ) as items:
            accepted = await item(items, type="accepted")
            assert accepted["from"] == "alice:their.server@here.test"
            task = await node.given()
            assert in_name_of(task.request, "here.test") == ALICE
            await node.hands.do(task, Answer(True, "Done.", 0))
            assert (await item(items, type="result"))["output"] == "Done."
        with pytest.raises(LocalError, match="cannot speak for"):
            await node.whole("task-send", to="worker", prompt="Do it.", **{"as": BOB})
    assert node.hands.given.empty()
