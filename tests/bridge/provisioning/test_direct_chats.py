"""The chat of a person and an agent."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from tests.bridge.people.service.scene import ALICE, HERE, WORKER, Onlookers, Stage
from tests.bridge.provisioning.bridge_manager import chats_of
from tests.support.agents import address

AGENT = address(f"worker-1@{HERE}")


class ComesInThere:
    """Alice lets the node speak for her. In place of `PersonSender`, on her own homeserver."""

    def __init__(self, play: Stage) -> None:
        self._play = play

    async def can_send_as(self, person: str) -> bool:
        return person == ALICE

    async def join_as(self, room_id: str, person: str) -> None:
        await self._play.join_when_invited(room_id, person)


async def test_it_is_found_after_a_kill(play: Stage) -> None:
    """Between the making and the writing down: by its key; and once it is written down, by that."""
    scene = await play.scene()
    first = await chats_of(play, scene).get_or_create(ALICE, AGENT)
    assert first.is_new
    async with play.here.database.transaction() as connection:
        await connection.execute("DELETE FROM direct_chats")
    for _ in range(2):
        again = await chats_of(play, scene).get_or_create(ALICE, AGENT)
        assert again.room_id == first.room_id
    assert await chats_of(play, scene).known_chats(ALICE, [AGENT]) == {AGENT: first.room_id}


async def test_who_lets_the_node_speak_is_there_at_once(play: Stage) -> None:
    """And who has left is invited anew, into the same chat."""
    scene = await play.scene()
    chats = chats_of(play, scene, ComesInThere(play))
    room_id = (await chats.get_or_create(ALICE, AGENT)).room_id
    await play.there.until_member(room_id, ALICE, "join")
    await play.there.node.rooms.leave(room_id, ALICE)
    seen = Onlookers(play.here)
    reading = asyncio.create_task(seen.read())
    await seen.until_member(room_id, ALICE, "leave")
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert (await chats_of(play, scene).get_or_create(ALICE, AGENT)).room_id == room_id
    assert await play.here.rooms.membership(room_id, ALICE) == "invite"


async def test_one_that_the_person_has_begun_is_the_chat(play: Stage) -> None:
    """A room of more than two is none; nor is one that the agent has left."""
    scene = await play.scene()
    begun = await play.there.chat(ALICE, WORKER)
    # It is there already; this node knows so when this returns.
    await play.here.rooms.join(begun, WORKER)
    chats = chats_of(play, scene)
    found = await chats.get_or_create(ALICE, AGENT)
    assert (found.room_id, found.is_new) == (begun, False)
    await play.here.rooms.leave(begun, WORKER)
    other = await chats.get_or_create(ALICE, AGENT)
    assert other.room_id != begun
    assert other.is_new


async def test_an_agent_of_another_homeserver_has_no_chat_of_ours(play: Stage) -> None:
    """It is a user there."""
    scene = await play.scene()
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await chats_of(play, scene).get_or_create(ALICE, address("cook@elsewhere.test"))
