"""`palaver task list`, `show` and `cancel`."""

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State
from storage.errors import LocalError
from tests.support.operated import Operated
from tests.support.tasks import request


async def _send(node: Operated, request_id: str, to: str = "worker", **more: object) -> None:
    await node.whole("task-send", to=to, prompt="Do it.", id=request_id, **more)


async def test_tasks_are_listed_newest_first(node: Operated) -> None:
    """Filtered by agent, requester and state, in pages."""
    await node.local_agents.register("worker", "other")
    for request_id in ("one", "two", "three"):
        await _send(node, request_id)
    await _send(node, "four", "other")
    await node.core.tasks.submit(request("five", key=TaskKey("living", "five"), to="nobody@here.test", task_id="t5"))

    async def found(**given: object) -> list[str]:
        return [one["task"].partition("@")[0] for one in (await node.ask("task-list", **given))["tasks"]]

    assert await found() == ["five", "four", "three", "two", "one"]
    assert await found(agent="worker@here.test") == await found(agent="worker") == ["three", "two", "one"]
    assert await found(requester="operator") == ["four", "three", "two", "one"]
    assert await found(requester="living") == await found(requester="coordinator@living") == ["five"]
    assert await found(states=["failed"]) == ["five"]
    assert await found(states=["live"]) == ["four", "three", "two", "one"]
    page = await node.ask("task-list", limit=2)
    assert await found(limit=2, before=page["next"]) == ["three", "two"]
    assert (await node.ask("task-list", limit=5))["next"] is None
    with pytest.raises(LocalError, match="not a state of a task"):
        await found(states=["lost"])


async def test_a_task_is_shown(node: Operated) -> None:
    """With its request, states, progress and answer."""
    await node.local_agents.register("worker")
    await _send(node, "one", context="Before.", metadata={"a": "b"}, model="large")
    task = await node.given()
    await node.local_agents.run(task, Answer(False, "No.", 3, {"tokens": 7}), {"message": "halfway"}, {"percent": 90})
    shown = await node.ask("task-show", task="one")
    assert shown["request"]["prompt"] == "Do it."
    assert (shown["request"]["context"], shown["request"]["metadata"]) == ("Before.", {"a": "b"})
    assert [state["state"] for state in shown["states"]] == ["received", "running", "failed"]
    assert [report["text"] for report in shown["progress"]] == ["halfway", "90 %"]
    assert (shown["answer"]["output"], shown["answer"]["exit"]) == ("No.", 3)
    assert (shown["from"], shown["protocol"]) == ("operator@here.test", "operator")


async def test_a_task_is_cancelled_once(node: Operated) -> None:
    """The answer names the operator and the reason. A task that has ended is not changed."""
    await node.local_agents.register("worker")
    await _send(node, "one")
    task = await node.given()
    for _ in range(2):
        answer = await node.ask("task-cancel", task="one@here.test", reason="Not needed.")
        assert (answer["cancelled"], answer["state"]) == (True, "cancelled")
    shown = await node.ask("task-show", task="one")
    assert shown["answer"]["output"] == "Cancelled by operator@here.test: Not needed."
    assert (await node.local_agents.cancelled.get()).key == task.key
    await _send(node, "two")
    await node.local_agents.run(await node.given(), Answer(True, "Done.", 0))
    answer = await node.ask("task-cancel", task="two")
    assert (answer["cancelled"], (await node.task("two")).state) == (False, State.DONE)
