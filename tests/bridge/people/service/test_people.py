"""People and agents: the whole of it, between a node and people on another homeserver."""

import asyncio
from typing import Any

from bridge.people.texts.text import MARK
from federation.events.room_event import RoomEvent
from storage.database import Database
from tests.bridge.people.service.scene import ALICE, HERE, NODE, WORKER, Scene, Stage


def thread_of(root: str) -> dict[str, Any]:
    """How a message stands in a thread, for clients that know threads."""
    return {
        "rel_type": "m.thread",
        "event_id": root,
        "m.in_reply_to": {"event_id": root},
        "is_falling_back": True,
    }


async def said_in(scene: Scene, room_id: str) -> list[RoomEvent]:
    """All messages and reactions of a room, the oldest first."""
    page = await scene.node.rooms.messages(room_id, limit=1_000)
    events = [event for event in page.events if event.type in {"m.room.message", "m.reaction"}]
    return list(reversed(events))


async def test_a_person_gives_an_agent_work_and_is_answered(play: Stage) -> None:
    """By mentioning it: the task has the person for its requester, the sign is on the message, and the answer
    of the agent's user in its thread, where the person goes on with it."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    await play.there.until_member(scene.room_id, WORKER, "join")
    asked = await play.there.mention(scene.room_id, ALICE, WORKER, "worker-1: peel the potatoes")
    task = await scene.given()
    assert task.request.prompt == "peel the potatoes"
    assert task.request.context == ""
    assert str(task.request.from_address) == f"alice:there.test@{HERE}"
    waiting = await play.there.until_reaction(asked, "⏳")
    assert waiting.sender == WORKER
    await scene.do(task, "**Done**, all of <b>them</b>.")
    answer = await play.there.until_body("**Done**")
    assert answer.sender == WORKER
    assert answer.content["msgtype"] == "m.text"
    assert answer.content["m.relates_to"] == thread_of(asked)
    assert answer.content["formatted_body"] == "<p><strong>Done</strong>, all of &lt;b&gt;them&lt;/b&gt;.</p>"
    assert answer.content.get("m.mentions", {}) == {}
    await play.there.until_reaction(asked, "✅")
    assert await scene.node.rooms.relations(scene.room_id, asked, "m.annotation") == [
        await scene.node.rooms.event(scene.room_id, (await play.there.until_reaction(asked, "✅")).event_id)
    ]

    further = await play.there.answer(scene.room_id, ALICE, asked, "and the carrots")
    task = await scene.given()
    assert task.request.prompt == "and the carrots"
    assert task.request.context == (
        f"{ALICE}: worker-1: peel the potatoes\n\n{WORKER}: **Done**, all of <b>them</b>."
    )
    await scene.do(task, "Those too.")
    answer = await play.there.until_body("Those too.")
    assert answer.content["m.relates_to"] == {
        **thread_of(asked),
        "m.in_reply_to": {"event_id": further},
        "is_falling_back": False,
    }
    await play.there.until_reaction(further, "✅")
    assert scene.notebook.problems == []


async def test_what_agents_ask_each_other_is_a_thread(play: Stage) -> None:
    """Begun by the node, with one message of progress that is edited, and the answer of the agent."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    await scene.ask()
    task = await scene.given()
    root = await play.there.until_body("⏳ coordinator@kitchen asks", "Peel the potatoes")
    assert root.sender == NODE
    assert root.content[MARK] == {"kind": "request", "task_id": "task-req-1"}
    assert await scene.tasks.begin(task.key) is not None
    await scene.tasks.progress(task.key, {"message": "the first one"})
    progress = await play.there.until_body("the first one", sender=WORKER)
    assert progress.content["m.relates_to"] == thread_of(root.event_id)
    await scene.tasks.progress(task.key, {"message": "half of them", "percent": 50})
    edited = await play.there.until_body("* 50 % half of them", sender=WORKER)
    assert edited.content["m.relates_to"] == {"rel_type": "m.replace", "event_id": progress.event_id}
    await scene.do(task, "Done.")
    answer = await play.there.until_body("Done.", sender=WORKER)
    assert answer.content["m.relates_to"] == thread_of(root.event_id)
    done = await play.there.until_body("* ✅ coordinator@kitchen asks")
    assert done.content["m.relates_to"] == {"rel_type": "m.replace", "event_id": root.event_id}
    assert (await scene.requester.answered.get()).answer is not None
    assert scene.notebook.problems == []


async def test_it_is_a_connector_like_the_others(play: Stage) -> None:
    """The core starts it, closes it, and gives it the desk."""
    scene = await play.scene()
    assert scene.people.reply is not None
    assert scene.people.name == "people"
    await play.join(scene.room_id, ALICE)
    await scene.people.stop()
    asked = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    await play.here.until(lambda event_id, _: event_id == asked)
    assert scene.courier.delivered.empty()
    await play.end(scene)
    # What was said meanwhile is heard the next time.
    scene = await play.scene()
    assert (await scene.given()).request.prompt == "peel"


async def read_again(database: Database) -> None:
    """As after a kill between doing something and remembering that it was read."""
    async with database.transaction() as connection:
        await connection.execute("UPDATE consumer_cursors SET position = 0")
        await connection.execute(
            "UPDATE people_tasks SET sign = NULL, sign_event = NULL, progress = NULL, answer = NULL"
        )
        await connection.execute("UPDATE tasks SET due = '{show,answer}', desk = 0")


async def test_what_is_done_again_after_a_kill_is_the_same(play: Stage) -> None:
    """Tasks, signs, answers, words: read and shown a second time, there is nothing new in the room."""
    scene = await play.scene()
    room_id = scene.room_id
    await play.join(room_id, ALICE)
    await play.there.say(room_id, ALICE, "@worker-1: peel the potatoes")
    task = await scene.given()
    await scene.do(task, "Done.")
    await play.there.until_body("Done.", sender=WORKER)
    await scene.ask()
    await scene.do(await scene.given(), "line\n" * 500)
    await play.there.until_body("* ✅")
    await play.there.say(room_id, ALICE, "!agents help")
    await play.there.until_body("What you can ask")
    taken_back = await play.there.say(room_id, ALICE, "@worker-1: wash the dishes")
    await scene.given()
    await play.there.answer(room_id, ALICE, taken_back, "cancel")
    await play.there.until_reaction(taken_back, "❌")
    before = await said_in(scene, room_id)
    await play.end(scene)

    await read_again(play.here.database)
    scene = await play.scene()
    last = await play.there.say(room_id, ALICE, "!agents agent worker-1")
    await play.there.until_body("is an agent of this node")
    async with play.here.database.connection() as connection:
        while await connection.fetchval("SELECT count(*) FROM tasks WHERE due <> '{}'"):
            pass
    after = [event.event_id for event in await said_in(scene, room_id)]
    assert after[: after.index(last)] == [event.event_id for event in before]
    assert len(after) - after.index(last) == 2
    assert scene.courier.delivered.empty()
    assert scene.notebook.problems == []


async def test_rooms_do_not_wait_for_each_other(play: Stage) -> None:
    """What does not end in some rooms holds up nothing that is said elsewhere."""
    slow: set[str] = set()

    async def is_for_others(event: RoomEvent) -> bool:
        if event.room_id in slow:
            await asyncio.Event().wait()
        return False

    scene = await play.scene(is_for_others=is_for_others)
    for _ in range(3):
        room_id = await play.there.chat(ALICE, NODE)
        await play.there.until_body("I am the node", room_id=room_id)
        slow.add(room_id)
        await play.there.say(room_id, ALICE, "help")
    room_id = await play.there.chat(ALICE, NODE)
    await play.there.say(room_id, ALICE, "help")
    await play.there.until_body("What you can ask", room_id=room_id)
    assert scene.notebook.problems == []
