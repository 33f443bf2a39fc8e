"""Rooms shared with people of a real Synapse."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from federation.http.server.tls import TlsFiles
from federation.local_users.local_users import LocalUsers
from federation.matrix.message_content import edit, reaction, reply, text
from federation.rooms.creation import CreateRoomRequest
from federation.transactions.edu_dispatcher import EduUpdate, TypingUsers
from federation.transactions.edus import Receipt, UserPresence
from tests.federation.local_users.homes import bodies
from tests.federation.nodes import Node, nodes
from tests.support.matrix_client import MatrixClient
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop]
EVERY_VERSION = pytest.mark.parametrize("version", ["10", "11", "12"])
TIMEOUT = 60.0


@pytest.fixture
async def node(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> AsyncIterator[Node]:
    """Over TLS, with a certificate of the Synapses' authority, which it trusts."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        yield await running.start_over_tls()


async def cook(node: Node) -> tuple[LocalUsers, str]:
    rooms, user = node.homeserver.local_users, node.user("cook")
    await rooms.ensure_user(user)
    await rooms.set_profile(user, displayname="Cook")
    return rooms, user


@EVERY_VERSION
async def test_a_local_room_is_shared(node: Node, synapse: Synapse, version: str) -> None:
    """An invited user finds it as it was created: messages with relations, edits and redactions; and it is
    upgraded."""
    rooms, user = await cook(node)
    bob = await synapse.person()
    request = CreateRoomRequest(
        creator=user, version=version, name="Kitchen", alias="kitchen", invite=[bob.user_id], is_direct=True
    )
    made = await rooms.create_room(request)
    room_id = made.room_id
    assert made.not_invited == {}
    await bob.wait_for_invite(room_id)
    assert await bob.join(room_id, via=[node.name]) == room_id
    members = await bob.joined_members(room_id)
    assert members[user]["display_name"] == "Cook"
    said = await rooms.send(room_id, user, "m.room.message", text("Soup?"), ts=1_600_000_000_000)
    await bob.wait_for_event(said)
    assert (await bob.event(room_id, said))["origin_server_ts"] == 1_600_000_000_000
    answer = await bob.reply(room_id, said, "Yes")
    async with asyncio.timeout(TIMEOUT):
        await node.until(lambda event_id, _: event_id == answer)
    await bob.wait_for_event(await rooms.send(room_id, user, "m.reaction", reaction(answer, "👍")))
    thanks = await rooms.send(room_id, user, "m.room.message", reply(answer, text("Tanks")))
    await bob.wait_for_event(await rooms.send(room_id, user, "m.room.message", edit(thanks, text("Thanks"))))
    related = await rooms.relations(room_id, said)
    assert [event.event_id for event in related] == [answer]
    await bob.wait_for_event(await rooms.redact(room_id, user, said, reason="cold"))
    assert (await bob.event(room_id, said))["content"] == {}
    new_room = await rooms.upgrade_room(room_id, user, "12" if version == "11" else "11")
    await bob.wait_for(lambda event: event["content"].get("replacement_room") == new_room)
    await rooms.invite(new_room, user, bob.user_id)
    await bob.wait_for_invite(new_room)
    assert await bob.join(f"#kitchen:{node.name}", via=[node.name]) == new_room
    assert (await bob.state(new_room, "m.room.create"))["predecessor"]["room_id"] == room_id
    assert (await bob.state(new_room, "m.room.name"))["name"] == "Kitchen"


async def test_a_remote_room_is_read_and_upgraded(node: Node, synapse: Synapse) -> None:
    """Earlier messages are backfilled when they are read; the upgraded room is joined."""
    rooms, user = await cook(node)
    bob = await synapse.person()
    room_id = await bob.create_room(version="11", preset="public_chat", alias=f"lobby{node.name[-5:]}")
    said = [str(number) for number in range(25)]
    for body in said:
        await bob.say(room_id, body)
    await rooms.join(room_id, user, via=[synapse.server_name])
    page = await rooms.messages(room_id, limit=50, reader=user)
    assert bodies(page.events) == said[::-1]
    assert page.events[-1].type == "m.room.create"
    new_room = await bob.upgrade(room_id, "12")
    async with asyncio.timeout(TIMEOUT), rooms.subscription("test") as subscription:
        while not (await rooms.state_event(room_id, "m.room.tombstone")):
            entries = await subscription.next()
            async with node.database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position)
    tombstone = await rooms.state_event(room_id, "m.room.tombstone")
    assert tombstone is not None
    assert tombstone.content["replacement_room"] == new_room
    assert await rooms.join(new_room, user, via=[synapse.server_name]) == new_room


async def test_ephemeral_events(node: Node, synapse: Synapse) -> None:
    """Typing, presence and receipts, both ways."""
    rooms, user = await cook(node)
    bob: MatrixClient = await synapse.person()
    room_id = (await rooms.create_room(CreateRoomRequest(creator=user, preset="public_chat"))).room_id
    await bob.join(room_id, via=[node.name])
    heard: asyncio.Queue[EduUpdate] = asyncio.Queue()
    for type_ in ("m.typing", "m.presence", "m.receipt"):
        rooms.listen(type_, heard.put_nowait)

    async def until(said: type, of: str) -> EduUpdate:
        async with asyncio.timeout(TIMEOUT):
            while True:
                one = await heard.get()
                who = one.user_ids if isinstance(one, TypingUsers) else (getattr(one, "user_id", None),)
                if isinstance(one, said) and of in who:
                    return one

    message = await rooms.send(room_id, user, "m.room.message", text("Soup?"))
    await bob.wait_for_event(message)
    await rooms.set_typing(room_id, user, typing=True)
    await bob.wait_until(lambda seen: user in seen.typing[room_id])
    await rooms.set_typing(room_id, user, typing=False)
    await bob.wait_until(lambda seen: user not in seen.typing[room_id])
    await rooms.set_presence(user, "online", status="cooking")
    await bob.wait_until(lambda seen: seen.presence.get(user, {}).get("status_msg") == "cooking")
    await bob.typing(room_id)
    await until(TypingUsers, bob.user_id)
    assert bob.user_id in rooms.typing(room_id)
    await bob.read(room_id, message)
    read = await until(Receipt, bob.user_id)
    assert isinstance(read, Receipt)
    assert read.event_id == message
    await bob.set_presence("online", "hungry")
    there = await until(UserPresence, bob.user_id)
    assert isinstance(there, UserPresence)
    assert there.presence == "online"
    answer = await bob.say(room_id, "Yes")
    async with asyncio.timeout(TIMEOUT):
        await node.until(lambda event_id, _: event_id == answer)
    await rooms.mark_read(room_id, user, answer)
    await bob.wait_until(lambda seen: seen.read[room_id].get(user) == answer)
