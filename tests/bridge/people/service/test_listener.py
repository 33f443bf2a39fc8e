"""Listens to what people say in rooms."""

from typing import Any

import pytest

from bridge.people.texts.text import MARK
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import in_thread, text
from tests.bridge.people.service.scene import ALICE, HERE, NODE, WORKER, Stage


async def test_agents_do_not_hear_each_other(play: Stage) -> None:
    """Nor themselves: our own users, notices, agents of other nodes, and what bears the mark of a Palaver.
    What a person says after them is heard."""
    scene = await play.scene()
    await scene.come("bob@there.test")
    room_id = scene.room_id
    await play.join(room_id, ALICE, "@bob:there.test")
    root = await play.there.say(room_id, ALICE, "@worker-1: peel")
    await scene.do(await scene.given(), "@worker-1: peel")
    await play.there.until_body("@worker-1: peel", sender=WORKER)
    said: list[tuple[str, dict[str, Any]]] = [
        ("@bob:there.test", text("@worker-1: peel", mentions=[WORKER])),
        (ALICE, text("@worker-1: peel", mentions=[WORKER], msgtype="m.notice")),
        (ALICE, {**text("@worker-1: peel", mentions=[WORKER]), MARK: {"kind": "answer"}}),
    ]
    for sender, content in said:
        for one in (content, in_thread(root, content)):
            await play.there.node.rooms.send(room_id, sender, "m.room.message", one)
    await scene.node.rooms.send(
        room_id, WORKER, "m.room.message", in_thread(root, text("@worker-1: peel", mentions=[WORKER]))
    )
    await play.there.say(room_id, ALICE, "@worker-1: the last")
    assert (await scene.given()).request.prompt == "the last"


async def test_a_room_of_agents_of_another_node_is_that_nodes(play: Stage) -> None:
    """Which gives out the work in it; our agents are there to be seen."""
    scene = await play.scene()
    theirs, chat = await play.there.chat(ALICE, WORKER), await play.there.chat(ALICE, WORKER)
    rooms = play.there.node.rooms
    await rooms.set_state(theirs, ALICE, "io.palaver.agents", {"namespace": "default", "node": "there.test"})
    await play.there.say(theirs, ALICE, "@worker-1: peel")
    await play.there.say(theirs, ALICE, "!agents help")
    await play.there.say(chat, ALICE, "!agents help")
    await play.there.until_body("What you can ask", room_id=chat)
    assert scene.courier.delivered.empty()
    assert not any("What you can ask" in body for body in play.there.bodies(theirs))


async def test_what_is_said_to_another_part_of_the_node_is_left_to_it(play: Stage) -> None:
    """Whatever else it could mean."""

    async def is_for_others(event: RoomEvent) -> bool:
        return "add" in str(event.content.get("body"))

    scene = await play.scene(is_for_others=is_for_others)
    await play.join(scene.room_id, ALICE)
    tasks, chat = await play.there.chat(ALICE, NODE), await play.there.chat(ALICE, WORKER)
    await play.there.say(tasks, ALICE, "!call hands add")
    await play.there.say(chat, ALICE, "add")
    await play.there.say(scene.room_id, ALICE, "@worker-1: add")
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    assert (await scene.given()).request.prompt == "peel"
    await play.there.say(tasks, ALICE, "help")
    await play.there.until_body("What you can ask", room_id=tasks)
    assert not any("no command" in body for body in play.there.bodies(tasks))


async def test_one_event_does_not_hold_up_the_others(play: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with it: it is tried again, set aside, and told to the operator."""
    monkeypatch.setattr("bridge.people.service.event_inbox.FIRST_DELAY", 0.01)
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    async with scene.node.database.transaction() as connection:
        await connection.execute("ALTER TABLE people_tasks ADD CHECK (agent <> 'worker-2@here.test')")
    await scene.come(f"worker-2@{HERE}")
    await play.there.say(scene.room_id, ALICE, "@worker-2: peel")
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    assert (await scene.given()).request.to_address.agent_id == "worker-1"
    assert [
        f"attempt {number} of" in problem for number, problem in enumerate(scene.notebook.problems, 1)
    ] == ([True] * 5)
