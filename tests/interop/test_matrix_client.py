"""The test client itself, checked on one Synapse."""

import asyncio

import pytest

from tests.support.matrix_client import MatrixClient, Refused
from tests.support.synapse import Synapse

pytestmark = pytest.mark.interop


async def test_memberships(synapse: Synapse) -> None:
    """Invite, join, reject, knock, kick, ban, unban, leave, upgrade; an error has its code and text."""
    owner, guest = await synapse.person(), await synapse.person()
    room_id = await owner.create_room(version="10", name="Club", initial_state=[_join_rule("knock")])

    with pytest.raises(Refused) as refused:
        await guest.join(room_id)
    assert (refused.value.status, refused.value.errcode) == (403, "M_FORBIDDEN")

    assert await guest.knock(room_id, reason="Hello?") == room_id
    await guest.wait_until(lambda seen: room_id in seen.knocked)
    await owner.wait_for(lambda event: event["content"].get("membership") == "knock", room_id=room_id)
    await owner.invite(room_id, guest.user_id)
    invite = await guest.wait_for_invite(room_id)
    assert "m.room.create" in {event["type"] for event in invite}
    await guest.leave(room_id, reason="Changed my mind")
    await guest.forget(room_id)

    await owner.invite(room_id, guest.user_id)
    await guest.join(room_id)
    assert await guest.joined_rooms() == [room_id]
    assert set(await owner.joined_members(room_id)) == {owner.user_id, guest.user_id}
    await owner.kick(room_id, guest.user_id, reason="Out")
    await guest.wait_until(lambda seen: room_id in seen.left)
    await owner.ban(room_id, guest.user_id)
    assert (await owner.members(room_id))[guest.user_id] == "ban"
    await owner.unban(room_id, guest.user_id)
    assert (await owner.members(room_id))[guest.user_id] == "leave"

    successor = await owner.upgrade(room_id, "12")
    assert (await owner.state(room_id, "m.room.tombstone"))["replacement_room"] == successor


async def test_messages_and_state(synapse: Synapse) -> None:
    """Send, edit, reply, react, redact, read; state and power levels."""
    alice, bob = await synapse.person(), await synapse.person()
    room_id = await alice.create_room(preset="public_chat")
    await bob.join(room_id)

    said = await alice.say(room_id, "One")
    related = {
        await bob.edit(room_id, said, "Two"),
        await bob.react(room_id, said, "👍"),
        await bob.reply_in_thread(room_id, said, "Three"),
    }
    assert {event["event_id"] for event in await alice.relations(room_id, said)} == related
    assert len(await alice.relations(room_id, said, "m.annotation")) == 1
    await bob.reply(room_id, said, "Four")
    await alice.redact(room_id, said, reason="Enough")
    assert (await bob.event(room_id, said))["content"] == {}
    around = await bob.context(room_id, said)
    assert around["event"]["event_id"] == said
    assert await bob.event_at(room_id, around["event"]["origin_server_ts"]) == said

    with pytest.raises(Refused, match="M_FORBIDDEN"):
        await bob.set_state(room_id, "m.room.topic", {"topic": "Mine"})
    await alice.set_power_levels(room_id, users={bob.user_id: 50}, invite=50)
    await bob.set_state(room_id, "m.room.topic", {"topic": "Mine"})
    assert (await alice.power_levels(room_id))["users"] == {bob.user_id: 50}
    state = await alice.full_state(room_id)
    assert state["m.room.topic", ""]["sender"] == bob.user_id

    history = await bob.history(room_id)
    assert history[0]["type"] == "m.room.create"
    assert {"m.room.redaction", "m.reaction", "m.room.topic"} <= {event["type"] for event in history}


async def test_directory(synapse: Synapse) -> None:
    """Aliases, published rooms, a space, profiles, a thumbnail."""
    alice = await synapse.person()
    child = await alice.create_room(preset="public_chat", name=f"Child of {alice.user_id}", published=True)
    space = await alice.create_room(preset="public_chat", creation_content={"type": "m.space"})
    await alice.set_state(space, "m.space.child", {"via": [synapse.server_name]}, child)
    assert [room["room_id"] for room in await alice.hierarchy(space)] == [space, child]

    alias = f"#{alice.user_id[1:].partition(':')[0]}:{synapse.server_name}"
    await alice.set_alias(alias, child)
    assert (await alice.resolve(alias))["room_id"] == child
    await alice.delete_alias(alias)
    with pytest.raises(Refused, match="M_NOT_FOUND"):
        await alice.resolve(alias)

    assert [room["room_id"] for room in await alice.public_rooms(search=alice.user_id)] == [child]
    await alice.publish(child, published=False)
    assert await alice.public_rooms(search=alice.user_id) == []

    await alice.set_display_name("Alice")
    picture = await alice.upload(_PNG, "image/png")
    await alice.set_avatar(picture)
    assert await alice.profile(alice.user_id) == {"displayname": "Alice", "avatar_url": picture}
    assert (await alice.thumbnail(picture, 32, 32, method="crop")).content_type == "image/png"


async def test_waiting(synapse: Synapse) -> None:
    """Past events are found, future ones end the wait, and a timeout shows what was seen."""
    alice = await synapse.person()
    again = await MatrixClient.login(synapse.homeserver, alice.user_id)
    assert (await again.whoami())["device_id"] == again.device_id != alice.device_id
    room_id = await alice.create_room()
    before = await alice.say(room_id, "Before")
    await alice.wait_for_event(before)

    first, second = (asyncio.create_task(alice.wait_for_text(text)) for text in ("First", "Second"))
    for text in ("Second", "First"):
        await again.say(room_id, text)
    assert (await first)["content"]["body"] == "First"
    assert (await second)["room_id"] == room_id
    assert (await alice.wait_for_event(before))["content"]["body"] == "Before"

    with pytest.raises(AssertionError, match="Second"):
        await alice.wait_for_text("Third", deadline=0.1)
    await again.log_out()
    with pytest.raises(Refused, match="M_UNKNOWN_TOKEN"):
        await again.whoami()


def _join_rule(rule: str) -> dict[str, object]:
    return {"type": "m.room.join_rules", "state_key": "", "content": {"join_rule": rule}}


# One red pixel.
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c494441"
    "5478da63f8cfc0000003010100f70341430000000049454e44ae426082"
)
