"""People and agents, between a node and a second homeserver."""

import asyncio
from typing import Any

from bridge.people.texts.text import MARK
from federation.events.room_event import RoomEvent
from storage.database import Database
from tests.bridge.people.service.running_node import ALICE, HERE, NODE, WORKER, RunningNode, Servers


def thread_of(root: str) -> dict[str, Any]:
    """The relation of a message in a thread, with the fallback for other clients."""
    return {"rel_type": "m.thread", "event_id": root, "m.in_reply_to": {"event_id": root}, "is_falling_back": True}


async def messages_in(running: RunningNode, room_id: str) -> list[RoomEvent]:
    """Return all messages and reactions of a room, the oldest first."""
    page = await running.node.rooms.messages(room_id, limit=1_000)
    events = [event for event in page.events if event.type in {"m.room.message", "m.reaction"}]
    return list(reversed(events))


async def test_a_person_mentions_an_agent_and_receives_the_answer(servers: Servers) -> None:
    """The message has status reactions, and the answer of the agent's user is in its thread, which the person
    can continue."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    await servers.there.until_member(running.room_id, WORKER, "join")
    asked = await servers.there.mention(running.room_id, ALICE, WORKER, "worker-1: peel the potatoes")
    task = await running.given()
    assert task.request.prompt == "peel the potatoes"
    assert task.request.context == ""
    assert str(task.request.from_address) == f"alice:there.test@{HERE}"
    waiting = await servers.there.until_reaction(asked, "⏳")
    assert waiting.sender == WORKER
    await running.complete(task, "**Done**, all of <b>them</b>.")
    answer = await servers.there.until_body("**Done**")
    assert answer.sender == WORKER
    assert answer.content["msgtype"] == "m.text"
    assert answer.content["m.relates_to"] == thread_of(asked)
    assert answer.content["formatted_body"] == "<p><strong>Done</strong>, all of &lt;b&gt;them&lt;/b&gt;.</p>"
    assert answer.content.get("m.mentions", {}) == {}
    await servers.there.until_reaction(asked, "✅")
    assert await running.node.rooms.relations(running.room_id, asked, "m.annotation") == [
        await running.node.rooms.event(running.room_id, (await servers.there.until_reaction(asked, "✅")).event_id)
    ]

    further = await servers.there.answer(running.room_id, ALICE, asked, "and the carrots")
    task = await running.given()
    assert task.request.prompt == "and the carrots"
    assert task.request.context == (f"{ALICE}: worker-1: peel the potatoes\n\n{WORKER}: **Done**, all of <b>them</b>.")
    await running.complete(task, "Those too.")
    answer = await servers.there.until_body("Those too.")
    assert answer.content["m.relates_to"] == {
        **thread_of(asked),
        "m.in_reply_to": {"event_id": further},
        "is_falling_back": False,
    }
    await servers.there.until_reaction(further, "✅")
    assert running.notebook.problems == []


async def test_a_task_between_agents_is_a_thread(servers: Servers) -> None:
    """The node sends its root. Progress is one edited message, followed by the answer of the agent."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    await running.request_task()
    task = await running.given()
    root = await servers.there.until_body("⏳ coordinator@kitchen asks", "Peel the potatoes")
    assert root.sender == NODE
    assert root.content[MARK] == {"kind": "request", "task_id": "task-req-1"}
    assert await running.task_service.begin(task.key) is not None
    await running.task_service.progress(task.key, {"message": "the first one"})
    progress = await servers.there.until_body("the first one", sender=WORKER)
    assert progress.content["m.relates_to"] == thread_of(root.event_id)
    await running.task_service.progress(task.key, {"message": "half of them", "percent": 50})
    edited = await servers.there.until_body("* 50 % half of them", sender=WORKER)
    assert edited.content["m.relates_to"] == {"rel_type": "m.replace", "event_id": progress.event_id}
    await running.complete(task, "Done.")
    answer = await servers.there.until_body("Done.", sender=WORKER)
    assert answer.content["m.relates_to"] == thread_of(root.event_id)
    done = await servers.there.until_body("* ✅ coordinator@kitchen asks")
    assert done.content["m.relates_to"] == {"rel_type": "m.replace", "event_id": root.event_id}
    assert (await running.requester.answered.get()).answer is not None
    assert running.notebook.problems == []


async def test_it_is_a_connector(servers: Servers) -> None:
    """The core starts and closes it, and sets its task service."""
    running = await servers.start_node()
    assert running.people.reply is not None
    assert running.people.name == "people"
    await servers.join(running.room_id, ALICE)
    await running.people.stop()
    asked = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    await servers.here.until(lambda event_id, _: event_id == asked)
    assert running.courier.delivered.empty()
    await servers.stop_node(running)
    # Messages of the meantime are handled after the next start.
    running = await servers.start_node()
    assert (await running.given()).request.prompt == "peel"


async def repeat_everything(database: Database) -> None:
    """Reset the positions, as after a kill between an effect and its acknowledgement."""
    async with database.transaction() as connection:
        await connection.execute("UPDATE consumer_cursors SET position = 0")
        await connection.execute(
            "UPDATE people_tasks SET sign = NULL, sign_event = NULL, progress = NULL, answer = NULL"
        )
        await connection.execute("UPDATE tasks SET due = '{show,answer}', desk = 0")


async def test_repeated_handling_sends_no_new_events(servers: Servers) -> None:
    """Tasks, reactions, answers and replies are the same events."""
    running = await servers.start_node()
    room_id = running.room_id
    await servers.join(room_id, ALICE)
    await servers.there.say(room_id, ALICE, "@worker-1: peel the potatoes")
    task = await running.given()
    await running.complete(task, "Done.")
    await servers.there.until_body("Done.", sender=WORKER)
    await running.request_task()
    await running.complete(await running.given(), "line\n" * 500)
    await servers.there.until_body("* ✅")
    await servers.there.say(room_id, ALICE, "!agents help")
    await servers.there.until_body("Commands:")
    taken_back = await servers.there.say(room_id, ALICE, "@worker-1: wash the dishes")
    await running.given()
    await servers.there.answer(room_id, ALICE, taken_back, "cancel")
    await servers.there.until_reaction(taken_back, "❌")
    before = await messages_in(running, room_id)
    await servers.stop_node(running)

    await repeat_everything(servers.here.database)
    running = await servers.start_node()
    last = await servers.there.say(room_id, ALICE, "!agents agent worker-1")
    await servers.there.until_body("is an agent of this node")
    async with servers.here.database.connection() as connection:
        while await connection.fetchval("SELECT count(*) FROM tasks WHERE due <> '{}'"):
            pass
    after = [event.event_id for event in await messages_in(running, room_id)]
    assert after[: after.index(last)] == [event.event_id for event in before]
    assert len(after) - after.index(last) == 2
    assert running.courier.delivered.empty()
    assert running.notebook.problems == []


async def test_rooms_do_not_wait_for_each_other(servers: Servers) -> None:
    """A handler that does not return blocks only its own room."""
    slow: set[str] = set()

    async def is_handled_elsewhere(event: RoomEvent) -> bool:
        if event.room_id in slow:
            await asyncio.Event().wait()
        return False

    running = await servers.start_node(is_handled_elsewhere=is_handled_elsewhere)
    for _ in range(3):
        room_id = await servers.there.chat(ALICE, NODE)
        await servers.there.until_body("I am the node", room_id=room_id)
        slow.add(room_id)
        await servers.there.say(room_id, ALICE, "help")
    room_id = await servers.there.chat(ALICE, NODE)
    await servers.there.say(room_id, ALICE, "help")
    await servers.there.until_body("Commands:", room_id=room_id)
    assert running.notebook.problems == []
