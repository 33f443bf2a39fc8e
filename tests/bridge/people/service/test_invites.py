"""Invites, joins and knocks."""

import asyncio

from federation.events.room_event import RoomEvent
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.people.service.running_node import ALICE, BOB, EVE, HERE, NODE, WORKER, Servers

FAY = "@fay:there.test"


async def invited(servers: Servers, user: str, whom: str, **more: object) -> str:
    request = CreateRoomRequest(creator=user, invite=[whom], is_direct=True, **more)  # type: ignore[arg-type]
    return (await servers.there.node.rooms.create_room(request)).room_id


async def test_an_agent_accepts_an_invite_of_a_permitted_person(servers: Servers) -> None:
    """Otherwise the rejection has the reason."""
    await servers.start_node()
    await servers.there.until_member(await invited(servers, ALICE, WORKER), WORKER, "join")
    rejected = await servers.there.until_member(await invited(servers, FAY, WORKER), WORKER, "leave")
    assert rejected.content["reason"] == (
        f'You need the permission "work" to give tasks to agents: for {FAY} the rule "*" = "look" of'
        " [permissions] applies."
    )
    await servers.there.until_member(await invited(servers, FAY, NODE), NODE, "join")
    rejected = await servers.there.until_member(await invited(servers, EVE, NODE), NODE, "leave")
    assert f'the rule "{EVE}" = "none"' in rejected.content["reason"]


async def test_other_invites_are_ignored(servers: Servers) -> None:
    """To a room with a type, and of a user who is not an agent."""
    await servers.start_node()
    await servers.here.rooms.ensure_user(f"@alice:{HERE}")
    office = await invited(servers, EVE, WORKER, room_type="io.a2c.office")
    person = await invited(servers, EVE, f"@alice:{HERE}")
    await servers.there.until_member(await invited(servers, EVE, WORKER), WORKER, "leave")
    assert await servers.there.node.rooms.membership(office, WORKER) == "invite"
    assert await servers.there.node.rooms.membership(person, f"@alice:{HERE}") == "invite"


async def test_people_are_told_once_about_an_encrypted_room(servers: Servers) -> None:
    """As soon as it is detected."""
    await servers.start_node()
    room_id = await invited(servers, ALICE, WORKER)
    await servers.there.until_member(room_id, WORKER, "join")
    # This node never encrypts rooms. Here a client of another server
    # encrypts one.
    await servers.there.node.graph.send_event(
        room_id, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ALICE, ""
    )
    said = await servers.there.until_body("This room is encrypted")
    assert said.sender == WORKER
    for _ in range(3):
        await servers.there.node.rooms.send(
            room_id, ALICE, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}
        )
    await servers.there.say(room_id, ALICE, "hello", msgtype="m.image", url="mxc://there.test/x")
    await servers.there.until_body("I can only read text.")
    assert [body for body in servers.there.bodies(room_id) if "encrypted" in body] == [said.content["body"]]

    other = await invited(servers, ALICE, f"@nobody:{HERE}")
    await servers.there.node.graph.send_event(
        other, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ALICE, ""
    )
    await servers.there.node.rooms.invite(other, ALICE, WORKER)
    await servers.there.until_body("This room is encrypted", room_id=other)


async def test_a_person_without_permission_is_kicked(servers: Servers) -> None:
    """Even from a public room, with the rule as reason."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE, EVE)

    def is_shown_out(event: RoomEvent) -> bool:
        return (event.state_key, event.sender, event.content.get("membership")) == (EVE, NODE, "leave")

    shown_out = await servers.there.until(is_shown_out)
    assert f'the rule "{EVE}" = "none"' in shown_out.content["reason"]
    assert await running.node.rooms.membership(running.room_id, ALICE) == "join"


async def test_a_knock_is_answered_with_an_invite(servers: Servers) -> None:
    """Or with a kick that has the rule as reason."""
    running = await servers.start_node(join_rule="knock")
    for user in (BOB, EVE):
        await servers.there.node.rooms.knock(running.room_id, user, via=[HERE])
    await servers.join_when_invited(running.room_id, BOB)
    await servers.here.until_member(running.room_id, EVE, "leave")
    refused = await running.node.rooms.state_event(running.room_id, "m.room.member", EVE)
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


async def test_an_invite_that_fails_is_sent_again(servers: Servers) -> None:
    """The user is not told about a failed attempt, and would wait forever."""
    running = await servers.start_node(join_rule="knock")
    servers.there.node.refuses_invites = Hesitant(2)
    await servers.there.node.rooms.knock(running.room_id, BOB, via=[HERE])
    await servers.join_when_invited(running.room_id, BOB)
    assert not running.notebook.problems


async def test_many_who_come_at_once_say_it_once(servers: Servers) -> None:
    """Only one of the invited agents sends the notice about the encryption."""
    agents = [f"worker-{number}" for number in range(1, 6)]
    running = await servers.start_node(agents=agents)
    users = [*(f"@{agent}:{HERE}" for agent in agents), NODE]
    for user in users:
        await servers.here.until_member(running.room_id, user, "join")
    room_id = await invited(servers, ALICE, f"@nobody:{HERE}")
    rooms = servers.there.node.rooms
    await servers.there.node.graph.send_event(
        room_id, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ALICE, ""
    )
    await asyncio.gather(*(rooms.invite(room_id, ALICE, user) for user in users))
    for user in users:
        await servers.there.until_member(room_id, user, "join")
    encrypted = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}
    await rooms.send(room_id, ALICE, "m.room.encrypted", encrypted)
    # Whatever would follow of it has been said before this is answered.
    await servers.there.say(room_id, ALICE, "!agents help")
    await servers.there.until_body("Commands:", room_id=room_id)
    said = [body for body in servers.there.bodies(room_id) if body.startswith("This room is encrypted")]
    assert len(said) == 1
