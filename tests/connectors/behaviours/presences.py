"""Typing, presence, receipts, EDUs and to-device messages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from federation.matrix.capabilities import BackendCapability
from federation.transactions.edu_dispatcher import EduUpdate, TypingUsers
from federation.transactions.edus import MAX_STATUS_BYTES, Receipt, ToDevice, UserPresence
from tests.connectors.backend_differences import Difference
from tests.connectors.setup import BackendSetup, refused
from tests.connectors.stream_recorder import TIMEOUT
from tests.support.matrix_client.seen import Seen


class Heard:
    """What a listener received."""

    def __init__(self, backend_setup: BackendSetup, *types: str) -> None:
        self.said: list[EduUpdate] = []
        self._changed = asyncio.Event()
        self._ends = [backend_setup.side.listen(type_, self._hear) for type_ in types]

    def _hear(self, said: EduUpdate) -> None:
        self.said.append(said)
        self._changed.set()

    async def until(self, condition: Callable[[EduUpdate], object]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not any(map(condition, self.said)):
                self._changed.clear()
                await self._changed.wait()

    async def until_so(self, condition: Callable[[], Awaitable[object]]) -> None:
        """Checked again after each notification."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                if await condition():
                    return
                await self._changed.wait()

    def end(self) -> None:
        for end in self._ends:
            end()


class PresencesBehave:
    async def test_typing(self, backend_setup: BackendSetup) -> None:
        """In both directions."""
        room_id, alice, bob = await backend_setup.meeting()
        heard = Heard(backend_setup, "m.typing")
        await bob.typing(room_id)
        await heard.until(lambda one: one == TypingUsers(room_id, (bob.user_id,)))
        assert tuple(backend_setup.side.typing(room_id)) == (bob.user_id,)
        await bob.typing(room_id, False)
        await heard.until(lambda one: one == TypingUsers(room_id, ()))
        assert tuple(backend_setup.side.typing(room_id)) == ()
        for typing in (True, False):
            await backend_setup.side.set_typing(room_id, alice, typing=typing)

            def is_told(seen: Seen, typing: bool = typing) -> bool:
                return (alice in seen.typing[room_id]) == typing

            await bob.wait_until(is_told)
        heard.end()
        heard.end()
        eve = await backend_setup.user("eve")
        await refused(backend_setup.side.set_typing(room_id, eve, typing=True), "M_FORBIDDEN")
        await refused(backend_setup.side.set_typing(f"!no:{backend_setup.domain}", eve, typing=True), "M_NOT_FOUND")

    async def test_presence(self, backend_setup: BackendSetup) -> None:
        """With the status message, in both directions."""
        _, alice, bob = await backend_setup.meeting()
        heard = Heard(backend_setup, "m.presence")
        await backend_setup.side.set_presence(alice, "online", status="cooking")
        await bob.wait_until(lambda seen: seen.presence.get(alice, {}).get("status_msg") == "cooking")

        def is_online(seen: Seen) -> bool:
            return bool(seen.presence[alice]["presence"] == "online")

        await bob.wait_until(is_online)
        await bob.set_presence("unavailable", "thinking")
        await heard.until(
            lambda one: (
                isinstance(one, UserPresence)
                and (one.user_id, one.presence, one.status_msg) == (bob.user_id, "unavailable", "thinking")
            )
        )
        known = backend_setup.side.presence(bob.user_id)
        assert known is not None
        assert (known.presence, known.status_msg) == ("unavailable", "thinking")
        await backend_setup.side.set_presence(alice, "offline")
        await bob.wait_until(lambda seen: seen.presence.get(alice, {}).get("presence") == "offline")
        assert backend_setup.side.presence(backend_setup.nobody()) is None
        heard.end()
        wrongs: list[dict[str, Any]] = [
            {"presence": "dnd"},
            {"presence": "online", "status": "x" * (MAX_STATUS_BYTES + 1)},
            {"presence": "online", "status": "a\0b"},
        ]
        for wrong in wrongs:
            await refused(backend_setup.side.set_presence(alice, **wrong), "M_INVALID_PARAM")

    async def test_receipts(self, backend_setup: BackendSetup) -> None:
        """Stored by thread; the newest counts."""
        room_id, alice, bob = await backend_setup.meeting()
        ids = [await backend_setup.say(room_id, alice, str(number)) for number in range(2)]
        await bob.wait_for_event(ids[1])
        heard = Heard(backend_setup, "m.receipt")
        for event_id, thread_id in ((ids[0], None), (ids[1], None), (ids[0], "main")):
            await bob.read(room_id, event_id, thread_id=thread_id)
            told_of = None if Difference.READ_IN_NO_THREAD in backend_setup.differences else thread_id
            wanted = (room_id, bob.user_id, event_id, told_of)

            def is_it(one: EduUpdate, wanted: object = wanted) -> bool:
                return isinstance(one, Receipt) and (one.room_id, one.user_id, one.event_id, one.thread_id) == wanted

            await heard.until(is_it)
        receipts = [one for one in await backend_setup.side.receipts(room_id) if one.user_id == bob.user_id]
        if Difference.READ_IN_NO_THREAD in backend_setup.differences:
            assert [one.thread_id for one in receipts] == [None]
        else:
            assert {(one.event_id, one.thread_id) for one in receipts} == {(ids[1], None), (ids[0], "main")}
        said_by_bob = await bob.say(room_id, "Read this.")
        await backend_setup.until_event(said_by_bob)
        for _ in range(2):
            await backend_setup.side.mark_read(room_id, alice, said_by_bob)
        await bob.wait_until(lambda seen: seen.read[room_id].get(alice) == said_by_bob)
        heard.end()
        assert list(await backend_setup.side.receipts("\0")) == []
        await refused(backend_setup.side.mark_read(room_id, alice, "$unknown"), "M_NOT_FOUND")
        await refused(backend_setup.side.mark_read(room_id, alice, said_by_bob, thread_id="thread"), "M_INVALID_PARAM")
        eve = await backend_setup.user("eve")
        await refused(backend_setup.side.mark_read(room_id, eve, said_by_bob), "M_FORBIDDEN")

    async def test_custom_edus(self, backend_setup: BackendSetup) -> None:
        """Refused without the capability."""
        room_id, alice, _ = await backend_setup.meeting()
        asked = backend_setup.side.send_edu(room_id, "io.cis.agent.heartbeat", {"agent": alice}, name=alice)
        if BackendCapability.EDUS in backend_setup.side.capabilities:
            await asked
            await refused(backend_setup.side.send_edu(room_id, "m.typing", {}), "M_INVALID_PARAM")
        else:
            await refused(asked, "M_UNRECOGNIZED")

    async def test_to_device_messages(self, backend_setup: BackendSetup) -> None:
        """Listeners are notified, and messages remain until their deletion is committed."""
        _, alice, bob = await backend_setup.meeting()
        assert BackendCapability.TO_DEVICE in backend_setup.side.capabilities
        heard = Heard(backend_setup, "m.direct_to_device")
        contents = [{"odd": "\0", "n": n} for n in range(3)]
        for content in contents:
            await backend_setup.send_to_device(bob, alice, content)
        await heard.until(lambda one: isinstance(one, ToDevice) and one.sender == bob.user_id)

        async def kept() -> list[object]:
            return [message.content for message in await backend_setup.side.device_messages(alice)]

        async def are_here() -> bool:
            return len(await kept()) == len(contents)

        await heard.until_so(are_here)
        first, *rest = await backend_setup.side.device_messages(alice)
        assert (first.user_id, first.sender, first.type) == (alice, bob.user_id, "m.x")
        assert (first.device_id == "*") is (Difference.DEVICES not in backend_setup.differences)
        assert [message.content for message in (first, *rest)] == contents
        assert await backend_setup.side.device_messages(alice, limit=1) == [first]
        async with backend_setup.database.transaction() as connection:
            await backend_setup.side.forget_device_messages(connection, alice, [first.position])
        assert await kept() == contents[1:]
        heard.end()
