"""Gives agents the work that people ask for."""

from bridge.agents.updates import Unregistration
from bridge.tasks.answer import Answer
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.people.service.scene import ALICE, CAROL, HERE, NODE, WORKER, Stage
from tests.federation.nodes import now_ms
from tests.support.agents import address

FAY = "@fay:there.test"


async def test_who_may_not_give_work_is_told_which_rule_decided(play: Stage) -> None:
    """In the thread where it was asked, and the agent hears nothing of it."""
    scene = await play.scene()
    await play.join(scene.room_id, FAY, ALICE)
    asked = await play.there.mention(scene.room_id, FAY, WORKER, "worker-1: peel")
    refusal = await play.there.until_body('the rule "*" = "look"')
    assert refusal.sender == NODE
    assert refusal.content["msgtype"] == "m.notice"
    assert refusal.content["m.mentions"] == {"user_ids": [FAY]}
    assert refusal.content["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    assert (await scene.given()).request.metadata == {"asked_by": ALICE}


async def test_agents_that_are_not_there(play: Stage) -> None:
    """One of whom nothing is known is a word of the node; one that has gone is a task that failed."""
    scene = await play.scene(agents=("worker-1", "worker-2"))
    await play.join(scene.room_id, ALICE)
    await play.there.say(scene.room_id, ALICE, "@worker-9: peel")
    await play.there.until_body("No agent worker-9 is known.", sender=NODE)
    await scene.routes.update([Unregistration(address(f"worker-2@{HERE}"), "shutdown", now_ms())])
    asked = await play.there.mention(scene.room_id, ALICE, f"@worker-2:{HERE}", "worker-2: peel")
    await play.there.until_body("is not there (AGENT_NOT_FOUND)", "Check the address")
    await play.there.until_reaction(asked, "❌")


async def test_several_agents_are_asked_at_once(play: Stage) -> None:
    """One task each, with a sign each."""
    scene = await play.scene(agents=("worker-1", "worker-2"))
    await play.join(scene.room_id, ALICE)
    await play.there.say(
        scene.room_id, ALICE, "peel", **{"m.mentions": {"user_ids": [WORKER, f"@worker-2:{HERE}"]}}
    )
    tasks = [await scene.given(), await scene.given()]
    assert {task.request.to_address.agent_id for task in tasks} == {"worker-1", "worker-2"}
    for task in tasks:
        await scene.do(task, f"done by {task.request.to_address.agent_id}")
    await play.there.until_body("done by worker-1", sender=WORKER)
    await play.there.until_body("done by worker-2", sender=f"@worker-2:{HERE}")


async def test_an_agent_elsewhere_is_spoken_for(play: Stage) -> None:
    """Its user is another node's: its answer is told by ours."""
    scene = await play.scene()
    await scene.come("cook@kitchen.test")
    await play.join(scene.room_id, ALICE)
    await play.there.say(scene.room_id, ALICE, "cook@kitchen.test boil them")
    task = await scene.given()
    assert task.elsewhere
    await scene.tasks.finish(task.key, Answer(True, "Boiled.", 0))
    said = await play.there.until_body("cook@kitchen.test answers:\nBoiled.")
    assert said.sender == NODE


async def test_in_a_chat_of_two_every_message_is_a_task(play: Stage) -> None:
    """Answered beside it, with what was said before."""
    scene = await play.scene()
    chat = await play.there.chat(ALICE, WORKER)
    asked = await play.there.say(chat, ALICE, "peel the potatoes")
    task = await scene.given()
    await scene.do(task, "Done.")
    answer = await play.there.until_body("Done.", room_id=chat)
    assert answer.content["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}
    await play.there.say(chat, ALICE, "and the carrots")
    task = await scene.given()
    assert task.request.context == f"{ALICE}: peel the potatoes\n\n{WORKER}: Done."
    await play.there.say(chat, ALICE, "x.png", msgtype="m.image", url="mxc://there.test/x")
    await play.there.until_body("I can only read text.")


async def test_an_agent_is_called_into_a_room_of_people(play: Stage) -> None:
    """Invited by who may give work; in a thread of theirs it is told what they said."""
    scene = await play.scene()
    made = await play.there.node.rooms.create_room(CreateRoomRequest(creator=ALICE, invite=[WORKER, CAROL]))
    await play.there.node.rooms.join(made.room_id, CAROL)
    await play.there.until_member(made.room_id, WORKER, "join")
    root = await play.there.say(made.room_id, CAROL, "The potatoes are dirty.")
    await play.there.answer(made.room_id, ALICE, root, "Then they have to be peeled.")
    assert scene.courier.delivered.empty()
    await play.there.answer(made.room_id, ALICE, root, "@worker-1: do it")
    task = await scene.given()
    assert task.request.context == (
        f"{CAROL}: The potatoes are dirty.\n\n{ALICE}: Then they have to be peeled."
    )
    await scene.do(task, "Done.")
    answer = await play.there.until_body("Done.", room_id=made.room_id)
    assert answer.content["m.relates_to"]["event_id"] == root
