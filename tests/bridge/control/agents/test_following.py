"""Following a task to its end."""

import asyncio

import pytest

from bridge.control.agents import send as following
from bridge.control.agents.send import follow
from bridge.tasks.answer import Answer
from bridge.tasks.request import TaskKey
from storage.database import Database
from storage.errors import LocalError
from tests.support.operated import HERE, Operated, item, operated

KEY = TaskKey(HERE, "one")


async def test_what_is_said_comes_in_its_order(node: Operated) -> None:
    """States, reports, and the result at the end; nothing behind it."""
    await node.hands.come("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    doing = asyncio.create_task(
        node.hands.do(await node.given(), Answer(True, "Done.", 0), *({"message": str(n)} for n in range(5)))
    )
    said = [one async for one in follow(node.parts, KEY)]
    await doing
    assert [one["text"] for one in said if one["type"] == "progress"] == ["0", "1", "2", "3", "4"]
    assert [one["type"] for one in said].index("result") == len(said) - 1
    assert (said[-1]["output"], said[-1]["exit"]) == ("Done.", 0)
    assert node.parts.replies._waiting == {}


async def test_who_is_slow_is_told_how_many_are_missing(node: Operated) -> None:
    """Only the newest hundred reports are kept, and so nobody's memory grows."""
    await node.hands.come("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    task = await node.given()
    items = follow(node.parts, KEY)
    await item(items, type="state")
    await node.hands.do(task, Answer(True, "Done.", 0), *({"message": str(n)} for n in range(130)))
    said = [one async for one in items]
    left_out = [one for one in said if one["type"] == "left_out"]
    assert [one["count"] for one in left_out] == [30]
    assert [one["text"] for one in said if one["type"] == "progress"] == [str(n) for n in range(30, 130)]


async def test_it_sees_what_another_process_does(
    node: Operated, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is attached there, and the answer is given there: it is looked at now and then."""
    monkeypatch.setattr(following, "LOOK_AGAIN", 0.05)
    async with operated(database) as other:
        await other.hands.come("worker")
        await other.whole("task-send", to="worker@here.test", prompt="Do it.", id="one")
        items = follow(node.parts, KEY)
        await item(items, type="state")
        await other.hands.do(await other.given(), Answer(True, "Done.", 0), {"message": "halfway"})
        assert (await item(items, type="progress"))["text"] == "halfway"
        assert (await item(items, type="result"))["output"] == "Done."


async def test_a_task_that_is_not_known_any_more_is_told(node: Operated) -> None:
    """It is not waited for in vain."""
    with pytest.raises(LocalError, match="not known any more"):
        await anext(follow(node.parts, KEY))
