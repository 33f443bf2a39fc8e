"""Answers people where they have spoken."""

from federation.peers.limits import Rate
from tests.bridge.people.service.scene import ALICE, Stage

FAY = "@fay:there.test"


async def test_who_asks_for_too_much_is_told_and_then_not_answered(play: Stage) -> None:
    """Refusals are counted too: who says the same again and again must not fill the room with answers."""
    scene = await play.scene(of_person=Rate(0.001, 2), refusals=Rate(0.001, 2))
    await play.join(scene.room_id, ALICE, FAY)
    for number in range(6):
        await play.there.say(scene.room_id, ALICE, f"@worker-1: peel {number}")
    prompts = {(await scene.given()).request.prompt for _ in range(2)}
    assert prompts == {"peel 0", "peel 1"}
    await play.there.say(scene.room_id, FAY, "!agents help")
    await play.there.until_body("What you can ask")
    refusals = [body for body in play.there.bodies(scene.room_id) if "too much at once" in body]
    assert len(refusals) == 2
    assert scene.courier.delivered.empty()


async def test_who_is_refused_in_a_thread_is_told_there(play: Stage) -> None:
    """And in a room in the room."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE, FAY)
    root = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    await scene.given()
    said = await play.there.answer(scene.room_id, FAY, root, "and the carrots")
    refusal = await play.there.until_body("Giving work to agents takes")
    assert refusal.content["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": root,
        "m.in_reply_to": {"event_id": said},
        "is_falling_back": False,
    }
