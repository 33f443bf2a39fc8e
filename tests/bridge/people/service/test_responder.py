"""Replies to people, and their rates."""

from federation.peers.limits import Rate
from tests.bridge.people.service.running_node import ALICE, Servers

FAY = "@fay:there.test"


async def test_requests_and_refusals_are_limited(servers: Servers) -> None:
    """Refusals beyond the limit are not sent, so a person cannot fill the room with them."""
    running = await servers.start_node(request_rate=Rate(0.001, 2), refusal_rate=Rate(0.001, 2))
    await servers.join(running.room_id, ALICE, FAY)
    for number in range(6):
        await servers.there.say(running.room_id, ALICE, f"@worker-1: peel {number}")
    prompts = {(await running.given()).request.prompt for _ in range(2)}
    assert prompts == {"peel 0", "peel 1"}
    await servers.there.say(running.room_id, FAY, "!agents help")
    await servers.there.until_body("Commands:")
    refusals = [body for body in servers.there.bodies(running.room_id) if "too many requests" in body]
    assert len(refusals) == 2
    assert running.courier.delivered.empty()


async def test_a_refusal_is_sent_to_the_thread_of_the_message(servers: Servers) -> None:
    """And in a room in the room."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE, FAY)
    root = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    await running.given()
    said = await servers.there.answer(running.room_id, FAY, root, "and the carrots")
    refusal = await servers.there.until_body("to give tasks to agents")
    assert refusal.content["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": root,
        "m.in_reply_to": {"event_id": said},
        "is_falling_back": False,
    }
