"""An agent that works on a person's request types, and has read the request."""

import asyncio
from collections.abc import Callable

import pytest

from bridge.people.service import work_indicator
from bridge.tasks.answer import Answer
from tests.bridge.people.service.running_node import ALICE, WORKER, RunningNode, Servers

DONE = Answer(True, "done", 0)


class Typing:
    """Who types in the room, as the people's homeserver knows it."""

    def __init__(self, servers: Servers, room_id: str) -> None:
        self._rooms = servers.there.node.rooms
        self._room_id = room_id
        self._changed = asyncio.Event()
        self._rooms.listen("m.typing", lambda _: self._changed.set())

    async def until(self, condition: Callable[[set[str]], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition(set(self._rooms.typing(self._room_id))):
                self._changed.clear()
                await self._changed.wait()


async def asked(servers: Servers, running: RunningNode, body: str) -> str:
    return await servers.there.say(running.room_id, ALICE, f"@worker-1: {body}")


async def test_an_agent_types_until_its_last_task_has_ended(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """And has read the requests."""
    monkeypatch.setattr(work_indicator, "DELAY", 0.0)
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    typing = Typing(servers, running.room_id)
    requests = [await asked(servers, running, body) for body in ("peel", "cut")]
    tasks = [await running.given() for _ in requests]
    for task in tasks:
        assert await running.task_service.begin(task.key) is not None
    await typing.until(lambda users: users == {WORKER})
    await running.task_service.finish(tasks[0].key, DONE)
    await servers.there.until_reaction(requests[0], "✅")
    await typing.until(lambda users: users == {WORKER})
    await running.task_service.finish(tasks[1].key, DONE)
    await typing.until(lambda users: not users)
    receipts = await running.node.rooms.receipts(running.room_id)
    assert {receipt.event_id for receipt in receipts if receipt.user_id == WORKER} <= set(requests)
    assert WORKER in {receipt.user_id for receipt in receipts}


async def test_an_answer_of_another_process_ends_the_typing(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is not told of it."""
    monkeypatch.setattr(work_indicator, "DELAY", 0.0)
    monkeypatch.setattr(work_indicator, "REFRESH", 0.02)
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    typing = Typing(servers, running.room_id)
    await asked(servers, running, "peel")
    task = await running.given()
    assert await running.task_service.begin(task.key) is not None
    await typing.until(lambda users: users == {WORKER})
    await running.people._tasks.set_answer(task.id, "$answer")
    await typing.until(lambda users: not users)


async def test_a_short_task_is_not_indicated(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anything remain of it."""
    monkeypatch.setattr(work_indicator, "DELAY", 3_600.0)
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    request = await asked(servers, running, "peel")
    await running.complete(await running.given(), "done")
    await servers.there.until_reaction(request, "✅")
    assert WORKER not in {receipt.user_id for receipt in await running.node.rooms.receipts(running.room_id)}
