"""Requests of people for agents."""

from bridge.agents.updates import Unregistration
from bridge.tasks.answer import Answer
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.people.service.running_node import ALICE, CAROL, HERE, NODE, WORKER, Servers
from tests.federation.nodes import now_ms
from tests.support.agents import address

FAY = "@fay:there.test"


async def test_without_permission_a_request_is_refused(servers: Servers) -> None:
    """The reply names the rule, and the agent receives no task."""
    running = await servers.start_node()
    await servers.join(running.room_id, FAY, ALICE)
    asked = await servers.there.mention(running.room_id, FAY, WORKER, "worker-1: peel")
    refusal = await servers.there.until_body('the rule "*" = "look"')
    assert refusal.sender == NODE
    assert refusal.content["msgtype"] == "m.notice"
    assert refusal.content["m.mentions"] == {"user_ids": [FAY]}
    assert refusal.content["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    assert (await running.given()).request.metadata == {"asked_by": ALICE}


async def test_requests_for_missing_agents_are_answered(servers: Servers) -> None:
    """An unknown agent with a message of the node, an offline agent with a failed task."""
    running = await servers.start_node(agents=("worker-1", "worker-2"))
    await servers.join(running.room_id, ALICE)
    await servers.there.say(running.room_id, ALICE, "@worker-9: peel")
    await servers.there.until_body("No agent worker-9 is known.", sender=NODE)
    await running.routes.update([Unregistration(address(f"worker-2@{HERE}"), "shutdown", now_ms())])
    asked = await servers.there.mention(running.room_id, ALICE, f"@worker-2:{HERE}", "worker-2: peel")
    await servers.there.until_body("was not found (AGENT_NOT_FOUND)", "Check the address")
    await servers.there.until_reaction(asked, "❌")


async def test_a_message_to_several_agents_creates_several_tasks(servers: Servers) -> None:
    """Each has its own answer."""
    running = await servers.start_node(agents=("worker-1", "worker-2"))
    await servers.join(running.room_id, ALICE)
    await servers.there.say(
        running.room_id, ALICE, "peel", **{"m.mentions": {"user_ids": [WORKER, f"@worker-2:{HERE}"]}}
    )
    tasks = [await running.given(), await running.given()]
    assert {task.request.to_address.agent_id for task in tasks} == {"worker-1", "worker-2"}
    for task in tasks:
        await running.complete(task, f"done by {task.request.to_address.agent_id}")
    await servers.there.until_body("done by worker-1", sender=WORKER)
    await servers.there.until_body("done by worker-2", sender=f"@worker-2:{HERE}")


async def test_the_answer_of_a_remote_agent_is_sent_by_the_node(servers: Servers) -> None:
    """The agent's user belongs to another node."""
    running = await servers.start_node()
    await running.register_agents("cook@kitchen.test")
    await servers.join(running.room_id, ALICE)
    await servers.there.say(running.room_id, ALICE, "cook@kitchen.test boil them")
    task = await running.given()
    assert task.elsewhere
    await running.task_service.finish(task.key, Answer(True, "Boiled.", 0))
    said = await servers.there.until_body("cook@kitchen.test answers:\nBoiled.")
    assert said.sender == NODE


async def test_in_a_direct_chat_every_message_is_a_task(servers: Servers) -> None:
    """The answer is a reply, and earlier messages are the context."""
    running = await servers.start_node()
    chat = await servers.there.chat(ALICE, WORKER)
    asked = await servers.there.say(chat, ALICE, "peel the potatoes")
    task = await running.given()
    await running.complete(task, "Done.")
    answer = await servers.there.until_body("Done.", room_id=chat)
    assert answer.content["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}
    await servers.there.say(chat, ALICE, "and the carrots")
    task = await running.given()
    assert task.request.context == f"{ALICE}: peel the potatoes\n\n{WORKER}: Done."
    await servers.there.say(chat, ALICE, "x.png", msgtype="m.image", url="mxc://there.test/x")
    await servers.there.until_body("I can only read text.")


async def test_an_agent_can_be_invited_to_a_room_of_people(servers: Servers) -> None:
    """In a thread, earlier messages are the context."""
    running = await servers.start_node()
    made = await servers.there.node.rooms.create_room(CreateRoomRequest(creator=ALICE, invite=[WORKER, CAROL]))
    await servers.there.node.rooms.join(made.room_id, CAROL)
    await servers.there.until_member(made.room_id, WORKER, "join")
    root = await servers.there.say(made.room_id, CAROL, "The potatoes are dirty.")
    await servers.there.answer(made.room_id, ALICE, root, "Then they have to be peeled.")
    assert running.courier.delivered.empty()
    await servers.there.answer(made.room_id, ALICE, root, "@worker-1: do it")
    task = await running.given()
    assert task.request.context == (f"{CAROL}: The potatoes are dirty.\n\n{ALICE}: Then they have to be peeled.")
    await running.complete(task, "Done.")
    answer = await servers.there.until_body("Done.", room_id=made.room_id)
    assert answer.content["m.relates_to"]["event_id"] == root
