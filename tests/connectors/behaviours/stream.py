"""The stream of events, and capabilities."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from federation.matrix.capabilities import BackendCapability
from storage.rooms.stream import ReaderReplaced, advance, begin_term, list_cursors
from tests.connectors.setup import BackendSetup, bodies, of
from tests.connectors.stream_recorder import TIMEOUT


def messages_of(room_id: str) -> Callable[[Any], bool]:
    return lambda event: (event.room_id, event.type) == (room_id, "m.room.message")


class StreamBehaves:
    async def test_readers_resume_at_their_committed_cursor(self, backend_setup: BackendSetup) -> None:
        """After a rollback events are read again. Readers have separate cursors."""
        room_id, alice, bob = await backend_setup.meeting()
        name, other = backend_setup.named("reader"), backend_setup.named("reader")
        wanted = messages_of(room_id)
        side = backend_setup.side
        async with side.subscription(other, from_now=True, wanted=wanted):
            pass
        async with side.subscription(name, from_now=True, wanted=wanted) as subscription:
            for number in range(5):
                if number % 2:
                    last = await backend_setup.say(room_id, alice, str(number))
                else:
                    last = await bob.say(room_id, str(number))
                await backend_setup.until_event(last)
            entries = await subscription.next()
            assert bodies(entry.event for entry in entries) == ["0", "1", "2", "3", "4"]
            assert [entry.position for entry in entries] == sorted({entry.position for entry in entries})
            assert entries == await subscription.next()
            with contextlib.suppress(KeyError):
                async with backend_setup.database.transaction() as connection:
                    await subscription.advance(connection, entries[-1].position)
                    raise KeyError
            async with backend_setup.database.transaction() as connection:
                await subscription.advance(connection, entries[2].position)
            assert bodies(entry.event for entry in await subscription.next(1)) == ["3"]
        async with (
            backend_setup.again() as again,
            again.subscription(name, wanted=wanted) as subscription,
            again.subscription(other, wanted=wanted) as beside,
        ):
            assert bodies(entry.event for entry in await subscription.next()) == ["3", "4"]
            assert len(await beside.next()) == 5

    async def test_stream_begins_with_the_join(self, backend_setup: BackendSetup) -> None:
        """Earlier events of the room are read as history."""
        bob, alice = await backend_setup.person(), await backend_setup.user("alice")
        room_id = await bob.create_room(preset="public_chat", name="Den")
        await bob.say(room_id, "before")
        name = backend_setup.named("reader")
        async with backend_setup.side.subscription(name, from_now=True, wanted=of(room_id)) as subscription:
            waiting = asyncio.ensure_future(subscription.next())
            await backend_setup.side.join(room_id, alice, via=[bob.server_name])
            async with asyncio.timeout(TIMEOUT):
                entries = [entry for entry in await waiting if entry.kind == "timeline"]
        assert (entries[0].event.state_key, entries[0].event.content["membership"]) == (alice, "join")
        assert await backend_setup.state(room_id, "m.room.name") == {"name": "Den"}

    async def test_cursor_advanced_by_another_statement(self, backend_setup: BackendSetup) -> None:
        """The subscription provides the position and is told afterwards."""
        room_id, alice, _ = await backend_setup.meeting()
        name = backend_setup.named("reader")
        wanted = messages_of(room_id)
        async with backend_setup.side.subscription(name, from_now=True, wanted=wanted) as subscription:
            ids = [await backend_setup.say(room_id, alice, body) for body in ("first", "second")]
            await backend_setup.until_event(ids[1])
            entries = await subscription.next()
            async with backend_setup.database.autocommit() as connection:
                await advance(connection, *subscription.cursor(entries[0].position))
            subscription.set_position(entries[0].position)
            assert [entry.event.event_id for entry in await subscription.next()] == ids[1:]
        async with backend_setup.side.subscription(name, wanted=wanted) as subscription:
            assert [entry.event.event_id for entry in await subscription.next()] == ids[1:]

    async def test_unwanted_events_are_skipped(self, backend_setup: BackendSetup) -> None:
        """By their type and sender; each reader has its own filter."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        # A homeserver pushes the first events of a room late.
        await backend_setup.until_event(await backend_setup.say(room_id, alice, "zeroth"))
        name = backend_setup.named("reader")
        reading = backend_setup.side.subscription(name, from_now=True, wanted=messages_of(room_id))
        async with reading as subscription:
            waiting = asyncio.ensure_future(subscription.next())
            await backend_setup.side.set_state(room_id, alice, "m.room.name", {"name": "Kitchen"})
            await backend_setup.say(room_id, alice, "first")
            async with asyncio.timeout(TIMEOUT):
                (first,) = await waiting
            assert first.event.content["body"] == "first"
            assert await subscription.next() == [first]
        async with backend_setup.side.subscription(name, wanted=of(room_id)) as subscription:
            seen = [one.event.type for one in await subscription.next()]
            assert seen == ["m.room.name", "m.room.message"]

    async def test_redactions_are_applied(self, backend_setup: BackendSetup) -> None:
        """Also to earlier events."""
        room_id, alice, bob = await backend_setup.meeting()
        name = backend_setup.named("reader")
        async with backend_setup.side.subscription(name, from_now=True, wanted=of(room_id)) as subscription:
            ids = [await backend_setup.say(room_id, alice, "oops"), await bob.say(room_id, "oops")]
            await backend_setup.until_event(ids[1])
            await backend_setup.side.redact(room_id, alice, ids[0])
            redaction = await bob.redact(room_id, ids[1])
            await backend_setup.until_event(redaction)
            entries = await subscription.next()
        said = {entry.event.event_id: entry.event for entry in entries}
        for event_id in ids:
            assert (said[event_id].content, said[event_id].is_redacted) == ({}, True)
        assert said[redaction].redacts == ids[1]

    async def test_open_invites_are_read(self, backend_setup: BackendSetup) -> None:
        """With stripped state, for rooms without local users; none is lost by a kill."""
        bob = await backend_setup.person()
        alice, eve = await backend_setup.user("alice"), await backend_setup.user("eve")
        room_id = await bob.create_room(name="Den")
        name = backend_setup.named("reader")
        async with backend_setup.side.subscription(name, from_now=True, wanted=of(room_id)):
            pass
        await bob.invite(room_id, eve)
        await backend_setup.until(lambda event: (event.room_id, event.state_key) == (room_id, eve))
        await backend_setup.side.leave(room_id, eve)
        await bob.invite(room_id, alice)
        await backend_setup.until(lambda event: (event.room_id, event.state_key) == (room_id, alice))
        async with backend_setup.side.subscription(name, wanted=of(room_id)) as subscription:
            entries = await subscription.next()
            invites = [entry for entry in entries if entry.kind == "invite"]
            assert [(one.event.type, one.event.state_key) for one in invites] == [("m.room.member", alice)]
            assert (invites[0].event.sender, invites[0].event.room_id) == (bob.user_id, room_id)
            assert {"m.room.create", "m.room.name"} <= {one["type"] for one in invites[0].invite_state}
            async with backend_setup.database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position)
            waiting = asyncio.ensure_future(subscription.next())
            await backend_setup.side.join(room_id, alice)
            async with asyncio.timeout(TIMEOUT):
                joined = [entry for entry in await waiting if entry.kind == "timeline"]
        assert (joined[0].event.state_key, joined[0].event.content["membership"]) == (alice, "join")

    async def test_one_process_reads_under_a_name(self, backend_setup: BackendSetup) -> None:
        """Another one waits and continues."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        name, wanted = backend_setup.named("reader"), messages_of(room_id)
        async with backend_setup.again() as second, contextlib.AsyncExitStack() as stack:
            reading = backend_setup.side.subscription(name, from_now=True, wanted=wanted)
            first = await stack.enter_async_context(reading)
            for body in ("one", "two", "three"):
                await backend_setup.until_event(await backend_setup.say(room_id, alice, body))

            async def read() -> list[object]:
                async with second.subscription(name, wanted=wanted) as subscription:
                    return bodies(entry.event for entry in await subscription.next())

            waiting = asyncio.create_task(read())
            entries = await first.next()
            async with backend_setup.database.transaction() as connection:
                await first.advance(connection, entries[0].position)
            assert not waiting.done()
            await stack.aclose()
            async with asyncio.timeout(TIMEOUT):
                assert await waiting == ["two", "three"]

    async def test_replaced_reader_cannot_commit(self, backend_setup: BackendSetup) -> None:
        """Its session may have ended without its knowledge."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        name = backend_setup.named("reader")
        reading = backend_setup.side.subscription(name, from_now=True, wanted=messages_of(room_id))
        async with reading as subscription:
            await backend_setup.until_event(await backend_setup.say(room_id, alice, "new"))
            (entry,) = await subscription.next()
            async with backend_setup.database.transaction() as connection:
                await begin_term(connection, name, 0)
            with pytest.raises(ReaderReplaced):
                async with backend_setup.database.transaction() as connection:
                    await subscription.advance(connection, entry.position)
            async with backend_setup.database.transaction() as connection:
                assert (await list_cursors(connection))[name] < entry.position

    async def test_concurrent_sends_are_read_once_each(self, backend_setup: BackendSetup) -> None:
        """In the order of each sender."""
        room_id, alice, bob = await backend_setup.meeting()
        eve = await backend_setup.user("eve")
        await backend_setup.side.join(room_id, eve)
        name = backend_setup.named("reader")
        reading = backend_setup.side.subscription(name, from_now=True, wanted=messages_of(room_id))
        async with reading as subscription:

            async def speak(who: str) -> None:
                for number in range(10):
                    if who == bob.user_id:
                        await bob.say(room_id, f"{number}")
                    else:
                        await backend_setup.say(room_id, who, f"{number}", transaction_id=f"{number}")

            speaking = asyncio.gather(*(speak(who) for who in (alice, eve, bob.user_id)))
            heard: dict[str, list[str]] = {alice: [], eve: [], bob.user_id: []}
            async with asyncio.timeout(TIMEOUT):
                while sum(map(len, heard.values())) < 30:
                    entries = await subscription.next()
                    for entry in entries:
                        heard[entry.event.sender].append(entry.event.content["body"])
                    async with backend_setup.database.transaction() as connection:
                        await subscription.advance(connection, entries[-1].position)
                await speaking
        assert list(heard.values()) == [[str(number) for number in range(10)]] * 3

    async def test_capabilities(self, backend_setup: BackendSetup) -> None:
        """All of them, or those of an attached node; `state` and `unset` entries need `MERGED_STATE`."""
        if BackendCapability.MERGED_STATE in backend_setup.side.capabilities:
            assert backend_setup.side.capabilities == frozenset(BackendCapability)
        else:
            assert backend_setup.side.capabilities == {BackendCapability.TO_DEVICE}
            assert {entry.kind for entry in backend_setup.recorder.entries} <= {"timeline", "invite"}
