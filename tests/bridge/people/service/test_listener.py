"""Handling people's messages."""

from typing import Any

import pytest

from bridge.people.texts.text import MARK
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import in_thread, text
from tests.bridge.people.service.running_node import ALICE, HERE, NODE, WORKER, Servers


async def test_messages_of_agents_are_ignored(servers: Servers) -> None:
    """Of local users, bots, agents of other nodes, and with the mark of Palaver. Later messages of people are
    handled."""
    running = await servers.start_node()
    await running.register_agents("bob@there.test")
    room_id = running.room_id
    await servers.join(room_id, ALICE, "@bob:there.test")
    root = await servers.there.say(room_id, ALICE, "@worker-1: peel")
    await running.complete(await running.given(), "@worker-1: peel")
    await servers.there.until_body("@worker-1: peel", sender=WORKER)
    said: list[tuple[str, dict[str, Any]]] = [
        ("@bob:there.test", text("@worker-1: peel", mentions=[WORKER])),
        (ALICE, text("@worker-1: peel", mentions=[WORKER], msgtype="m.notice")),
        (ALICE, {**text("@worker-1: peel", mentions=[WORKER]), MARK: {"kind": "answer"}}),
    ]
    for sender, content in said:
        for one in (content, in_thread(root, content)):
            await servers.there.node.rooms.send(room_id, sender, "m.room.message", one)
    await running.node.rooms.send(
        room_id, WORKER, "m.room.message", in_thread(root, text("@worker-1: peel", mentions=[WORKER]))
    )
    await servers.there.say(room_id, ALICE, "@worker-1: the last")
    assert (await running.given()).request.prompt == "the last"


async def test_requests_in_an_agents_room_of_another_node_are_ignored(servers: Servers) -> None:
    """That node handles them."""
    running = await servers.start_node()
    theirs, chat = await servers.there.chat(ALICE, WORKER), await servers.there.chat(ALICE, WORKER)
    rooms = servers.there.node.rooms
    await rooms.set_state(theirs, ALICE, "io.palaver.agents", {"namespace": "default", "node": "there.test"})
    await servers.there.say(theirs, ALICE, "@worker-1: peel")
    await servers.there.say(theirs, ALICE, "!agents help")
    await servers.there.say(chat, ALICE, "!agents help")
    await servers.there.until_body("Commands:", room_id=chat)
    assert running.courier.delivered.empty()
    assert not any("Commands:" in body for body in servers.there.bodies(theirs))


async def test_messages_handled_elsewhere_are_ignored(servers: Servers) -> None:
    """For example commands of a connector."""

    async def is_handled_elsewhere(event: RoomEvent) -> bool:
        return "add" in str(event.content.get("body"))

    running = await servers.start_node(is_handled_elsewhere=is_handled_elsewhere)
    await servers.join(running.room_id, ALICE)
    task_service, chat = await servers.there.chat(ALICE, NODE), await servers.there.chat(ALICE, WORKER)
    await servers.there.say(task_service, ALICE, "!call hands add")
    await servers.there.say(chat, ALICE, "add")
    await servers.there.say(running.room_id, ALICE, "@worker-1: add")
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    assert (await running.given()).request.prompt == "peel"
    await servers.there.say(task_service, ALICE, "help")
    await servers.there.until_body("Commands:", room_id=task_service)
    assert not any("no command" in body for body in servers.there.bodies(task_service))


async def test_a_failing_event_does_not_block_others(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is retried, set aside, and reported to the operator."""
    monkeypatch.setattr("bridge.people.service.event_inbox.FIRST_DELAY", 0.01)
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    async with running.node.database.transaction() as connection:
        await connection.execute("ALTER TABLE people_tasks ADD CHECK (agent <> 'worker-2@here.test')")
    await running.register_agents(f"worker-2@{HERE}")
    await servers.there.say(running.room_id, ALICE, "@worker-2: peel")
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    assert (await running.given()).request.to_address.agent_id == "worker-1"
    assert [f"attempt {number} of" in problem for number, problem in enumerate(running.notebook.problems, 1)] == (
        [True] * 5
    )
