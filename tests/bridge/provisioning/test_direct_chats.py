"""Direct chats of a person with an agent."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from tests.bridge.people.service.running_node import ALICE, HERE, WORKER, RemoteUsers, Servers
from tests.bridge.provisioning.bridge_manager import chats_of
from tests.support.agents import address

AGENT = address(f"worker-1@{HERE}")


class ComesInThere:
    """Replaces `PersonSender`: Alice, on her own homeserver, allows the node to act for her."""

    def __init__(self, servers: Servers) -> None:
        self._play = servers

    async def can_send_as(self, person: str) -> bool:
        return person == ALICE

    async def join_as(self, room_id: str, person: str) -> None:
        await self._play.join_when_invited(room_id, person)


async def test_chat_is_found_after_a_kill(servers: Servers) -> None:
    """Before it is recorded by its key, afterwards by the record."""
    node = await servers.start_node()
    first = await chats_of(servers, node).get_or_create(ALICE, AGENT)
    assert first.is_new
    async with servers.here.database.transaction() as connection:
        await connection.execute("DELETE FROM direct_chats")
    for _ in range(2):
        again = await chats_of(servers, node).get_or_create(ALICE, AGENT)
        assert again.room_id == first.room_id
    assert await chats_of(servers, node).known_chats(ALICE, [AGENT]) == {AGENT: first.room_id}


async def test_person_is_joined_at_once(servers: Servers) -> None:
    """If the node may act for the person; a person who has left is invited again."""
    node = await servers.start_node()
    chats = chats_of(servers, node, ComesInThere(servers))
    room_id = (await chats.get_or_create(ALICE, AGENT)).room_id
    await servers.there.until_member(room_id, ALICE, "join")
    await servers.there.node.rooms.leave(room_id, ALICE)
    seen = RemoteUsers(servers.here)
    reading = asyncio.create_task(seen.read())
    await seen.until_member(room_id, ALICE, "leave")
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert (await chats_of(servers, node).get_or_create(ALICE, AGENT)).room_id == room_id
    assert await servers.here.rooms.membership(room_id, ALICE) == "invite"


async def test_chat_started_by_the_person(servers: Servers) -> None:
    """Rooms with more members, and rooms that the agent has left, do not count."""
    node = await servers.start_node()
    begun = await servers.there.chat(ALICE, WORKER)
    # The join has happened; on return this node knows of it.
    await servers.here.rooms.join(begun, WORKER)
    chats = chats_of(servers, node)
    found = await chats.get_or_create(ALICE, AGENT)
    assert (found.room_id, found.is_new) == (begun, False)
    await servers.here.rooms.leave(begun, WORKER)
    other = await chats.get_or_create(ALICE, AGENT)
    assert other.room_id != begun
    assert other.is_new


async def test_agent_of_another_homeserver_is_refused(servers: Servers) -> None:
    """It is a user there."""
    node = await servers.start_node()
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await chats_of(servers, node).get_or_create(ALICE, address("cook@elsewhere.test"))
