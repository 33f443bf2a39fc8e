"""Answers invites, and lets people into rooms of agents or shows them out."""

import asyncio

from federation.events.room_event import RoomEvent
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.people.service.scene import ALICE, BOB, EVE, HERE, NODE, WORKER, Stage

FAY = "@fay:there.test"


async def invited(play: Stage, user: str, whom: str, **more: object) -> str:
    request = CreateRoomRequest(creator=user, invite=[whom], is_direct=True, **more)  # type: ignore[arg-type]
    return (await play.there.node.rooms.create_room(request)).room_id


async def test_who_may_give_work_gets_an_agent_into_a_room(play: Stage) -> None:
    """Who may not is told why, by the event that rejects the invite."""
    await play.scene()
    await play.there.until_member(await invited(play, ALICE, WORKER), WORKER, "join")
    rejected = await play.there.until_member(await invited(play, FAY, WORKER), WORKER, "leave")
    assert rejected.content["reason"] == (
        f'Giving work to agents takes the permission "work": for {FAY} the rule "*" = "look" of'
        " [permissions] decides."
    )
    await play.there.until_member(await invited(play, FAY, NODE), NODE, "join")
    rejected = await play.there.until_member(await invited(play, EVE, NODE), NODE, "leave")
    assert f'the rule "{EVE}" = "none"' in rejected.content["reason"]


async def test_invites_of_others_business_are_left_alone(play: Stage) -> None:
    """A room of a type, and a user who is no agent. What is invited after them has been answered."""
    await play.scene()
    await play.here.rooms.ensure_user(f"@alice:{HERE}")
    office = await invited(play, EVE, WORKER, room_type="io.a2c.office")
    person = await invited(play, EVE, f"@alice:{HERE}")
    await play.there.until_member(await invited(play, EVE, WORKER), WORKER, "leave")
    assert await play.there.node.rooms.membership(office, WORKER) == "invite"
    assert await play.there.node.rooms.membership(person, f"@alice:{HERE}") == "invite"


async def test_an_encrypted_room_cannot_be_read(play: Stage) -> None:
    """Which is said in one sentence, once in each room, whenever it turns out."""
    await play.scene()
    room_id = await invited(play, ALICE, WORKER)
    await play.there.until_member(room_id, WORKER, "join")
    # Nobody of this node could set it: rooms of agents are never encrypted. Here a client of another server
    # has.
    await play.there.node.graph.send_event(
        room_id, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ALICE, ""
    )
    said = await play.there.until_body("This room is encrypted")
    assert said.sender == WORKER
    for _ in range(3):
        await play.there.node.rooms.send(
            room_id, ALICE, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}
        )
    await play.there.say(room_id, ALICE, "hello", msgtype="m.image", url="mxc://there.test/x")
    await play.there.until_body("I can only read text.")
    assert [body for body in play.there.bodies(room_id) if "encrypted" in body] == [said.content["body"]]

    other = await invited(play, ALICE, f"@nobody:{HERE}")
    await play.there.node.graph.send_event(
        other, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ALICE, ""
    )
    await play.there.node.rooms.invite(other, ALICE, WORKER)
    await play.there.until_body("This room is encrypted", room_id=other)


async def test_who_may_not_look_is_shown_out(play: Stage) -> None:
    """Of a room that is open to everybody, with the rule that decided."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE, EVE)

    def is_shown_out(event: RoomEvent) -> bool:
        return (event.state_key, event.sender, event.content.get("membership")) == (EVE, NODE, "leave")

    shown_out = await play.there.until(is_shown_out)
    assert f'the rule "{EVE}" = "none"' in shown_out.content["reason"]
    assert await scene.node.rooms.membership(scene.room_id, ALICE) == "join"


async def test_who_knocks_is_let_in(play: Stage) -> None:
    """Or refused, with the rule that decided."""
    scene = await play.scene(join_rule="knock")
    for user in (BOB, EVE):
        await play.there.node.rooms.knock(scene.room_id, user, via=[HERE])
    await play.join_when_invited(scene.room_id, BOB)
    await play.here.until_member(scene.room_id, EVE, "leave")
    refused = await scene.node.rooms.state_event(scene.room_id, "m.room.member", EVE)
    assert refused is not None
    assert f'the rule "{EVE}" = "none"' in refused.content["reason"]


class Hesitant(set[str]):
    """Users who do not want an invite the first times that they are sent one."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def __contains__(self, user: object) -> bool:
        self._times -= 1
        return self._times >= 0


async def test_an_invite_that_fails_is_sent_again(play: Stage) -> None:
    """Whoever knocks hears nothing of the first one, and would wait for ever."""
    scene = await play.scene(join_rule="knock")
    play.there.node.refuses_invites = Hesitant(2)
    await play.there.node.rooms.knock(scene.room_id, BOB, via=[HERE])
    await play.join_when_invited(scene.room_id, BOB)
    assert not scene.notebook.problems


async def test_many_who_come_at_once_say_it_once(play: Stage) -> None:
    """Whoever is invited into an encrypted room, and however many of them: one sentence, by one of them."""
    agents = [f"worker-{number}" for number in range(1, 6)]
    scene = await play.scene(agents=agents)
    users = [*(f"@{agent}:{HERE}" for agent in agents), NODE]
    for user in users:
        await play.here.until_member(scene.room_id, user, "join")
    room_id = await invited(play, ALICE, f"@nobody:{HERE}")
    rooms = play.there.node.rooms
    await play.there.node.graph.send_event(
        room_id, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ALICE, ""
    )
    await asyncio.gather(*(rooms.invite(room_id, ALICE, user) for user in users))
    for user in users:
        await play.there.until_member(room_id, user, "join")
    encrypted = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}
    await rooms.send(room_id, ALICE, "m.room.encrypted", encrypted)
    # Whatever would follow of it has been said before this is answered.
    await play.there.say(room_id, ALICE, "!agents help")
    await play.there.until_body("What you can ask", room_id=room_id)
    said = [body for body in play.there.bodies(room_id) if body.startswith("This room is encrypted")]
    assert len(said) == 1
