"""People in rooms, between a node as a process and a real Synapse. Each test runs twice: in a local room that
a remote user joins, and in a remote room that a local user joins."""

import io
import secrets

import pytest
from PIL import Image

from tests.federation.pictures import picture
from tests.support.driven_node import Resident
from tests.support.driven_node.walking import Sides, refused, shared_room, talk
from tests.support.matrix_client import Refused

pytestmark = [
    pytest.mark.interop,
    pytest.mark.xdist_group("walk"),
    pytest.mark.parametrize("version", ["10", "11", "12"]),
]

NEXT_VERSION = {"10": "11", "11": "12", "12": "12"}


async def test_joining(sides: Sides, version: str) -> None:
    """By an alias, by an id, and by an invite, which is accepted or rejected. An uninvited user can neither
    join nor read a closed room, even if others of that server are in it."""
    host, guest, stranger = sides
    alias = f"lobby-{secrets.token_hex(4)}"
    named = await host.create_room(version=version, preset="public_chat", alias=alias, name="Lobby")
    assert await guest.join(f"#{alias}:{host.server_name}") == named
    assert (await guest.state(named, "m.room.create"))["room_version"] == version
    await talk(named, host, guest)
    await guest.leave(named)
    await host.wait_for_member(named, guest.user_id, "leave")
    assert await guest.join(named, via=[host.server_name]) == named
    await talk(named, host, guest)

    closed, unwanted = [await host.create_room(version=version, name="Closed") for _ in range(2)]
    await refused(guest.join(closed, via=[host.server_name]))
    for room_id in (closed, unwanted):
        await host.invite(room_id, guest.user_id, reason="Do come.")
        shown = {event["type"]: event for event in await guest.wait_for_invite(room_id)}
        assert shown["m.room.name"]["content"] == {"name": "Closed"}
        assert shown["m.room.create"]["content"]["room_version"] == version
    await guest.join(closed)
    await talk(closed, host, guest)
    await guest.leave(unwanted, reason="No, thanks.")
    left = await host.wait_for_member(unwanted, guest.user_id, "leave")
    assert (left["sender"], left["content"]["reason"]) == (guest.user_id, "No, thanks.")

    said = await host.say(closed, "between us")
    await guest.wait_for_event(said)
    await refused(stranger.join(closed, via=[host.server_name]))
    with pytest.raises(Refused):
        await stranger.event(closed, said)
    assert closed not in await stranger.joined_rooms()


async def test_knocking_and_restricted_joins(sides: Sides, version: str) -> None:
    """A knock is received, retracted, or answered by an invite. Only members of the one room may join the
    other; a member there authorises the join."""
    host, guest, stranger = sides
    knock = {"type": "m.room.join_rules", "state_key": "", "content": {"join_rule": "knock"}}
    door = await host.create_room(version=version, initial_state=[knock])
    for person in (guest, stranger):
        await person.knock(door, via=[host.server_name], reason="It rains.")
        heard = await host.wait_for_member(door, person.user_id, "knock")
        assert heard["content"]["reason"] == "It rains."
    await stranger.leave(door)
    if isinstance(stranger, Resident):  # a Synapse retracts a knock without notifying the other server
        await host.wait_for_member(door, stranger.user_id, "leave")
    await host.invite(door, guest.user_id)
    await guest.wait_for_invite(door)
    await guest.join(door, via=[host.server_name])
    await talk(door, host, guest)

    hall = await host.create_room(version=version, preset="public_chat")
    rule = {"join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": hall}]}
    restricted = {"type": "m.room.join_rules", "state_key": "", "content": rule}
    chamber = await host.create_room(version=version, initial_state=[restricted])
    await refused(guest.join(chamber, via=[host.server_name]))
    await guest.join(hall, via=[host.server_name])
    await guest.join(chamber, via=[host.server_name])
    came = await host.wait_for_member(chamber, guest.user_id, "join")
    assert came["content"]["join_authorised_via_users_server"] == host.user_id
    await talk(chamber, host, guest)


async def test_kicks_and_bans(sides: Sides, version: str) -> None:
    """A kicked user may rejoin, a banned one only after the ban is lifted; a kick needs power."""
    host, guest, stranger = sides
    room_id = await shared_room(host, guest, stranger, version=version)
    await refused(guest.kick(room_id, stranger.user_id))
    await host.kick(room_id, guest.user_id, reason="Noise.")
    kicked = await guest.wait_for_member(room_id, guest.user_id, "leave")
    assert (kicked["sender"], kicked["content"]["reason"]) == (host.user_id, "Noise.")
    await refused(guest.say(room_id, "But!"))
    await guest.join(room_id, via=[host.server_name])
    await talk(room_id, host, guest)

    await host.ban(room_id, guest.user_id)
    await guest.wait_for_member(room_id, guest.user_id, "ban")
    await stranger.wait_for_member(room_id, guest.user_id, "ban")
    await refused(guest.join(room_id, via=[host.server_name]))
    await refused(host.invite(room_id, guest.user_id))
    unbanned = stranger.wait_for(
        lambda event: (
            event.get("state_key") == guest.user_id
            and event["sender"] == host.user_id
            and event["content"]["membership"] == "leave"
            and "reason" not in event["content"]
        )
    )
    await host.unban(room_id, guest.user_id)
    await unbanned
    await guest.join(room_id, via=[host.server_name])
    await talk(room_id, host, guest)


async def test_messages(sides: Sides, version: str) -> None:
    """Messages, replies, edits, reactions and redactions arrive unchanged on the other server."""
    host, guest, _ = sides
    room_id = await shared_room(host, guest, version=version)
    for one, other in ((host, guest), (guest, host)):
        said = await one.say(room_id, "Anybody there?")
        heard = await other.wait_for_event(said)
        assert (heard["sender"], heard["content"]["body"]) == (one.user_id, "Anybody there?")

        answer = await other.reply(room_id, said, "I am.")
        relation = (await one.wait_for_event(answer))["content"]["m.relates_to"]
        assert relation["m.in_reply_to"]["event_id"] == said
        threaded = await other.reply_in_thread(room_id, said, "So am I.")
        await one.wait_for_event(threaded)
        assert [event["event_id"] for event in await one.relations(room_id, said, "m.thread")] == [threaded]

        edited = await one.edit(room_id, said, "Anybody here?")
        await other.wait_for_event(edited)
        [edit] = await other.relations(room_id, said, "m.replace")
        assert (edit["event_id"], edit["content"]["m.new_content"]["body"]) == (edited, "Anybody here?")

        liked, disliked = await other.react(room_id, said, "👍"), await other.react(room_id, said, "👎")
        await one.wait_for_event(liked)
        await one.wait_for_event(disliked)
        shown = await one.relations(room_id, said, "m.annotation")
        assert {event["content"]["m.relates_to"]["key"] for event in shown} == {"👍", "👎"}
        await one.wait_for_event(await other.redact(room_id, disliked))
        assert [event["event_id"] for event in await one.relations(room_id, said, "m.annotation")] == [liked]

        slip = await one.say(room_id, "My password is hunter2.")
        await other.wait_for_event(slip)
        redaction = await one.redact(room_id, slip, reason="A slip.")
        told = await other.wait_for_event(redaction)
        assert told["content"]["reason"] == "A slip."
        for reader in (one, other):
            assert (await reader.event(room_id, slip))["content"] == {}
        assert "hunter2" not in str(await other.history(room_id))


async def test_ephemeral_events(sides: Sides, version: str) -> None:
    """Typing, receipts and presence are exchanged, and a changed name."""
    host, guest, _ = sides
    room_id = await shared_room(host, guest, version=version)
    for one, other in ((host, guest), (guest, host)):
        await one.typing(room_id)
        await other.wait_until(lambda seen, one=one: one.user_id in seen.typing[room_id])
        await one.typing(room_id, False)
        await other.wait_until(lambda seen, one=one: one.user_id not in seen.typing[room_id])
        said = await one.say(room_id, "Read this.")
        await other.wait_for_event(said)
        await other.read(room_id, said)
        await one.wait_until(lambda seen, other=other, said=said: seen.read[room_id].get(other.user_id) == said)
        await one.set_presence("unavailable", "thinking")
        await other.wait_until(lambda seen, one=one: seen.presence.get(one.user_id, {}).get("status_msg") == "thinking")
        await one.set_display_name("Somebody Else")
        await other.wait_for(
            lambda event, one=one: (
                event.get("state_key") == one.user_id and event["content"].get("displayname") == "Somebody Else"
            ),
            room_id=room_id,
        )
        assert (await other.joined_members(room_id))[one.user_id]["display_name"] == "Somebody Else"
        assert (await other.profile(one.user_id))["displayname"] == "Somebody Else"


async def test_images(sides: Sides, version: str) -> None:
    """An image and its thumbnail are the same on the other server."""
    host, guest, _ = sides
    room_id = await shared_room(host, guest, version=version)
    for one, other in ((host, guest), (guest, host)):
        data = picture(colour=(20, 200, 20))
        mxc = await one.upload(data, "image/png", filename="green.png")
        message = {"msgtype": "m.image", "body": "green.png", "url": mxc, "info": {"mimetype": "image/png"}}
        shown = await other.wait_for_event(await one.send(room_id, "m.room.message", message))
        got = await other.download(shown["content"]["url"])
        assert (got.data, got.content_type) == (data, "image/png")
        small = await other.thumbnail(shown["content"]["url"], 32, 32, method="crop")
        with Image.open(io.BytesIO(small.data)) as image:
            assert image.size == (32, 32)


async def test_history_after_a_late_join(sides: Sides, version: str) -> None:
    """A new member reads all messages from the first one, without the redacted ones."""
    host, guest, _ = sides
    room_id = await host.create_room(version=version, preset="public_chat")
    said = [await host.say(room_id, "first")]
    slip = await host.say(room_id, "hunter2")
    await host.redact(room_id, slip)
    # More than one page, and more than one answer to a question for history.
    said += [await host.say(room_id, f"message {number}") for number in range(110)]
    await guest.join(room_id, via=[host.server_name])
    history = await guest.history(room_id)
    assert [event["event_id"] for event in history if event["event_id"] in said] == said
    assert history[0]["type"] == "m.room.create"
    assert [event["content"] for event in history if event["event_id"] == slip] == [{}]
    assert "hunter2" not in str(history)
    # What the other side has is what there is.
    mine, theirs = [{event["event_id"] for event in await person.history(room_id)} for person in (guest, host)]
    assert mine == theirs


async def test_power_levels(sides: Sides, version: str) -> None:
    """A user without power is refused by their own server; granted power applies on both servers."""
    host, guest, _ = sides
    room_id = await shared_room(host, guest, version=version)
    said = await host.say(room_id, "Mine.")
    await guest.wait_for_event(said)
    await refused(guest.redact(room_id, said))
    for attempt in (
        guest.set_state(room_id, "m.room.topic", {"topic": "no"}),
        guest.set_power_levels(room_id, users={guest.user_id: 100}),
    ):
        sentence = await refused(attempt)
        if isinstance(guest, Resident):
            number = "8" if version == "12" else "7"
            assert f"rule {number}: If the event type's required power level" in sentence

    raised = await host.set_power_levels(room_id, users={guest.user_id: 50})
    await guest.wait_for_event(raised)
    topic = await guest.set_state(room_id, "m.room.topic", {"topic": "yes"})
    await host.wait_for_event(topic)
    assert await host.state(room_id, "m.room.topic") == {"topic": "yes"}
    await host.wait_for_event(await guest.redact(room_id, said))
    assert (await host.event(room_id, said))["content"] == {}
    # Not above one's own.
    await refused(guest.set_power_levels(room_id, users={guest.user_id: 60}))

    muted = await host.set_power_levels(room_id, users={guest.user_id: 0}, events_default=10)
    await guest.wait_for_event(muted)
    await refused(guest.say(room_id, "mute"))
    await refused(guest.set_state(room_id, "m.room.topic", {"topic": "no"}))
    assert await host.state(room_id, "m.room.topic") == {"topic": "yes"}


async def test_room_upgrades(sides: Sides, version: str) -> None:
    """The other server sees the tombstone, joins the new room, and finds the old alias."""
    host, guest, _ = sides
    alias = f"moving-{secrets.token_hex(4)}"
    old = await shared_room(host, guest, version=version, alias=alias, name="Moving")
    new = await host.upgrade(old, NEXT_VERSION[version])
    tombstone = await guest.wait_for(lambda event: event["type"] == "m.room.tombstone", room_id=old)
    assert tombstone["content"]["replacement_room"] == new
    assert await guest.join(new, via=[host.server_name]) == new
    create = await guest.state(new, "m.room.create")
    assert (create["room_version"], create["predecessor"]["room_id"]) == (NEXT_VERSION[version], old)
    assert await guest.state(new, "m.room.name") == {"name": "Moving"}
    assert await guest.join(f"#{alias}:{host.server_name}") == new
    await talk(new, host, guest)
    await guest.wait_for(
        lambda event: event["type"] == "m.room.power_levels" and event["sender"] == host.user_id, room_id=old
    )
    levels = await guest.power_levels(old)
    assert levels["events_default"] >= 50


async def test_directory_and_spaces(sides: Sides, version: str) -> None:
    """The room list of one server is read and searched on the other, and so is a space, without closed
    rooms."""
    host, guest, _ = sides
    name = f"Kitchen {secrets.token_hex(4)}"
    kitchen = await host.create_room(version=version, preset="public_chat", name=name, published=True)
    closed = await host.create_room(version=version, name=f"{name}, the cellar")
    [found] = await guest.public_rooms(server=host.server_name, search=name)
    assert (found["room_id"], found["name"], found["num_joined_members"]) == (kitchen, name, 1)

    house = await host.create_room(
        version=version, preset="public_chat", name="House", creation_content={"type": "m.space"}
    )
    floor = await host.create_room(
        version=version, preset="public_chat", name="Floor", creation_content={"type": "m.space"}
    )
    for space, room_id in ((house, floor), (house, closed), (floor, kitchen)):
        await host.set_state(space, "m.space.child", {"via": [host.server_name]}, room_id)
    await guest.join(house, via=[host.server_name])
    rooms = await guest.hierarchy(house)
    assert [(room["room_id"], room["name"]) for room in rooms] == [(house, "House"), (floor, "Floor"), (kitchen, name)]
    assert [room.get("room_type") for room in rooms] == ["m.space", "m.space", None]
