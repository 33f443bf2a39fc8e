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


async def test_items_are_in_order(node: Operated) -> None:
    """States and progress, and the result as the last item."""
    await node.local_agents.register("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    doing = asyncio.create_task(
        node.local_agents.run(await node.given(), Answer(True, "Done.", 0), *({"message": str(n)} for n in range(5)))
    )
    items = [one async for one in follow(node.parts, KEY)]
    await doing
    assert [one["text"] for one in items if one["type"] == "progress"] == ["0", "1", "2", "3", "4"]
    assert [one["type"] for one in items].index("result") == len(items) - 1
    assert (items[-1]["output"], items[-1]["exit"]) == ("Done.", 0)
    assert node.parts.replies._waiting == {}


async def test_a_slow_client_receives_the_number_of_deleted_reports(node: Operated) -> None:
    """Only the newest hundred reports are stored."""
    await node.local_agents.register("worker")
    await node.whole("task-send", to="worker", prompt="Do it.", id="one")
    task = await node.given()
    items = follow(node.parts, KEY)
    await item(items, type="state")
    await node.local_agents.run(task, Answer(True, "Done.", 0), *({"message": str(n)} for n in range(130)))
    received = [one async for one in items]
    left_out = [one for one in received if one["type"] == "left_out"]
    assert [one["count"] for one in left_out] == [30]
    assert [one["text"] for one in received if one["type"] == "progress"] == [str(n) for n in range(30, 130)]


async def test_changes_by_another_process_are_followed(
    node: Operated, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is attached to another process. The task is polled."""
    monkeypatch.setattr(following, "POLL_INTERVAL", 0.05)
    async with operated(database) as other:
        await other.local_agents.register("worker")
        await other.whole("task-send", to="worker@here.test", prompt="Do it.", id="one")
        items = follow(node.parts, KEY)
        await item(items, type="state")
        await other.local_agents.run(await other.given(), Answer(True, "Done.", 0), {"message": "halfway"})
        assert (await item(items, type="progress"))["text"] == "halfway"
        assert (await item(items, type="result"))["output"] == "Done."


async def test_a_deleted_task_is_an_error(node: Operated) -> None:
    """The command does not wait for it."""
    with pytest.raises(LocalError, match="no longer stored"):
        await anext(follow(node.parts, KEY))
