"""Ephemeral data between two homeservers."""

import asyncio
from collections.abc import Callable

import pytest

from federation.matrix.errors import MatrixError
from federation.transactions.edu_dispatcher import EduUpdate, ReceivedCustomEdu, TypingUsers
from federation.transactions.edus import MAX_CUSTOM_EDU_BYTES, MAX_STATUS_BYTES, Receipt, ToDevice, UserPresence
from federation.transactions.outgoing_edus import to_device
from tests.federation.local_users.homes import TIMEOUT, Home


class Heard:
    """Collects what a listener receives."""

    def __init__(self, home: Home, *types: str) -> None:
        self.said: list[EduUpdate] = []
        self._changed = asyncio.Event()
        self._ends = [home.rooms.listen(type_, self._hear) for type_ in types]

    def _hear(self, said: EduUpdate) -> None:
        self.said.append(said)
        self._changed.set()

    async def until(self, condition: Callable[[EduUpdate], object]) -> EduUpdate:
        async with asyncio.timeout(TIMEOUT):
            while not (found := [one for one in self.said if condition(one)]):
                self._changed.clear()
                await self._changed.wait()
        return found[-1]

    def end(self) -> None:
        for end in self._ends:
            end()


async def meeting(pair: tuple[Home, Home]) -> tuple[str, str, str]:
    """A room with one user of each homeserver."""
    here, there = pair
    alice, bob = await here.user("alice"), await there.user("bob")
    room_id = await here.room(alice)
    await there.rooms.join(room_id, bob, via=["here.test"])
    return room_id, alice, bob


async def test_typing_is_seen_until_it_ends(pair: tuple[Home, Home]) -> None:
    """On both servers; it ends explicitly or by timeout."""
    here, there = pair
    room_id, alice, _ = await meeting(pair)
    heard = [Heard(home, "m.typing") for home in pair]
    for says_so in (True, False):
        await here.rooms.set_typing(room_id, alice, typing=True, lasts_ms=60_000)
        for one in heard:
            await one.until(lambda said: said == TypingUsers(room_id, (alice,)))
        assert there.rooms.typing(room_id) == (alice,)
        # Typing with a timeout of a millisecond.
        await here.rooms.set_typing(room_id, alice, typing=not says_so, lasts_ms=1)
        for one in heard:
            await one.until(lambda said: said == TypingUsers(room_id, ()))
            one.said.clear()
    assert here.rooms.typing(room_id) == there.rooms.typing(room_id) == ()
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await here.rooms.set_typing(room_id, await here.user("eve"), typing=True)


async def test_presence_reaches_servers_of_shared_rooms(pair: tuple[Home, Home]) -> None:
    """Those of current rooms and of one joined later. Presence of unrelated users is not kept."""
    here, there = pair
    alice, stranger = await here.user("alice"), await here.user("stranger")
    heard = Heard(there, "m.presence")
    await here.rooms.set_presence(alice, "online", status="cooking")
    await here.rooms.set_presence(stranger, "online")
    assert here.rooms.presence(alice) == UserPresence(alice, "online", 0, True, "cooking")
    bob = await there.user("bob")
    room_id = await there.room(bob)
    await here.rooms.join(room_id, alice, via=["there.test"])
    online = await heard.until(lambda said: isinstance(said, UserPresence) and said.user_id == alice)
    assert online == there.rooms.presence(alice) == here.rooms.presence(alice)
    await here.rooms.set_presence(alice, "offline")
    await heard.until(lambda said: said == UserPresence(alice, "offline"))
    assert there.rooms.presence(stranger) is None
    for wrong in ({"presence": "dnd"}, {"presence": "online", "status": "x" * (MAX_STATUS_BYTES + 1)}):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await here.rooms.set_presence(alice, **wrong)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await here.rooms.set_presence(bob, "online")


async def test_receipts_reach_the_other_server(pair: tuple[Home, Home]) -> None:
    """They are stored by thread; the newest counts."""
    here, there = pair
    room_id, alice, bob = await meeting(pair)
    said = [await here.say(room_id, alice, str(number)) for number in range(2)]
    await there.until_event(said[1])
    heard = Heard(here, "m.receipt")
    for event_id in (said[0], said[1], said[1]):
        await there.rooms.mark_read(room_id, bob, event_id)
    await there.rooms.mark_read(room_id, bob, said[0], thread_id="main")
    for event_id, thread_id in ((said[1], None), (said[0], "main")):
        await heard.until(
            lambda one, event_id=event_id, thread_id=thread_id: (
                isinstance(one, Receipt) and (one.user_id, one.event_id, one.thread_id) == (bob, event_id, thread_id)
            )
        )
    for home in pair:
        receipts = await home.rooms.receipts(room_id)
        assert [(one.user_id, one.event_id, one.thread_id) for one in receipts] == [
            (bob, said[1], None),
            (bob, said[0], "main"),
        ]
    assert await here.rooms.receipts("\0") == []
    for event_id, thread_id, code in (
        ("$unknown", None, "404 M_NOT_FOUND"),
        (said[0], "thread", "400 M_INVALID_PARAM"),
    ):
        with pytest.raises(MatrixError, match=code):
            await there.rooms.mark_read(room_id, bob, event_id, thread_id=thread_id)


async def test_custom_edus_reach_the_servers_of_a_room(pair: tuple[Home, Home]) -> None:
    """Listeners get the server that sent them."""
    here, there = pair
    room_id, alice, _ = await meeting(pair)
    heard = Heard(there, "io.cis.agent.heartbeat")
    await here.rooms.send_edu(room_id, "io.cis.agent.heartbeat", {"agent": alice}, name=alice)
    said = await heard.until(lambda said: isinstance(said, ReceivedCustomEdu))
    assert isinstance(said, ReceivedCustomEdu)
    assert (said.origin, said.edu.content) == ("here.test", {"agent": alice})
    heard.end()
    heard.end()
    for type_, content, code in (
        ("m.typing", {}, "M_INVALID_PARAM"),
        ("io.x", {"a": 0.5}, "M_BAD_JSON"),
        ("io.x", {"a": "x" * MAX_CUSTOM_EDU_BYTES}, "M_TOO_LARGE"),
    ):
        with pytest.raises(MatrixError, match=code):
            await here.rooms.send_edu(room_id, type_, content)


async def test_to_device_messages_are_stored_until_they_are_deleted(pair: tuple[Home, Home]) -> None:
    """Listeners are notified when they can be read. Messages to unknown users are not stored."""
    here, there = pair
    _, alice, bob = await meeting(pair)
    heard = Heard(here, "m.direct_to_device")
    content = {"odd": "\0", "n": 1}
    message = ToDevice(bob, "m.x", "1", {alice: {"*": content}, "@nobody:here.test": {"*": content}})
    async with there.database.transaction() as connection:
        await there.homeserver.outbox.queue_edu(connection, ["here.test"], to_device(message))
    await heard.until(lambda said: said == message)
    (kept,) = await here.rooms.device_messages(alice)
    assert (kept.user_id, kept.device_id, kept.sender, kept.type) == (alice, "*", bob, "m.x")
    assert kept.content == content
    async with here.database.transaction() as connection:
        await here.rooms.forget_device_messages(connection, alice, [kept.position])
    assert await here.rooms.device_messages(alice) == []
    assert await here.rooms.device_messages("@nobody:here.test") == []
