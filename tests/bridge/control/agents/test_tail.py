"""`palaver tail`."""

from functools import partial

import pytest

from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.live import to_live_event
from bridge.tasks.answer import Answer
from storage.errors import LocalError
from tests.support.operated import Operated, item


async def test_live_events_are_streamed(node: Operated) -> None:
    """Of agents, tasks, progress and messages between nodes, from the first item on."""
    async with node.stream("tail") as items:
        await item(items, type="listening")
        await node.local_agents.register("worker")
        assert (await item(items, type="agent"))["agent"] == "worker@here.test"
        await node.whole("task-send", to="worker", prompt="Do it.", id="one")
        await node.local_agents.run(await node.given(), Answer(True, "Done.", 0), {"message": "halfway"})
        assert (await item(items, type="progress"))["text"] == "halfway"
        assert (await item(items, type="task", what="done"))["task"] == "one@here.test"
        act = EventRecord("a.test", "io.cis.agent.message", Verdict.TAKEN)
        node.parts.feed.show(partial(to_live_event, act))
        assert (await item(items, type="cis"))["peer"] == "a.test"
    assert node.parts.feed._listeners == []


async def test_live_events_can_be_filtered(node: Operated) -> None:
    """By agent, node, task and type."""
    await node.local_agents.register("worker", "other")
    async with node.stream("tail", types=["task"], agents=["other"], tasks=["two"]) as items:
        await item(items, type="listening")
        for to, request_id in (("worker", "one"), ("other", "three"), ("other", "two")):
            await node.whole("task-send", to=to, prompt="Do it.", id=request_id)
        first = await anext(items)
        assert (first["type"], first["task"]) == ("task", "two@here.test")


async def test_an_unknown_type_is_an_error(node: Operated) -> None:
    """The stream would be empty forever."""
    with pytest.raises(LocalError, match="Use one of agent, task, progress, dropped, cis"):
        await node.whole("tail", types=["weather"])
