"""The stream of pushed events."""

import asyncio
import contextlib

import pytest

from appservice.intake.stream import IntakeStream
from federation.events.room_event import RoomEvent
from federation.stream.event_stream import Subscription
from storage.rooms import stream as consumers
from storage.rooms.stream import ReaderReplaced
from tests.appservice.events import ALICE, message
from tests.appservice.intakes import IntakeHarness
from tests.support.postgres import pool_on

TIMEOUT = 60.0


def _says_stop(event: RoomEvent) -> bool:
    return event.type == "stop"


async def test_readers_resume_at_their_committed_cursor(harness: IntakeHarness) -> None:
    """After a rollback events are read again. Readers have separate cursors."""
    for number in range(3):
        await harness.receive(str(number), message(f"${number}"))
    async with harness.stream.subscription("a") as given:
        # The bridge requires this of every Matrix backend.
        subscription: Subscription = given
        entries = await subscription.next()
        assert [entry.event.event_id for entry in entries] == ["$0", "$1", "$2"]
        assert [entry.kind for entry in entries] == ["timeline"] * 3
        assert entries[0].event.sender == ALICE
        with contextlib.suppress(KeyError):
            async with harness.database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position)
                raise KeyError
        async with harness.database.transaction() as connection:
            await subscription.advance(connection, entries[0].position)
        assert [entry.event.event_id for entry in await subscription.next(1)] == ["$1"]
        async with harness.database.autocommit() as connection:
            await consumers.advance(connection, *subscription.cursor(entries[0].position))
        subscription.set_position(entries[0].position)
    async with harness.stream.subscription("a") as subscription:
        assert [entry.event.event_id for entry in await subscription.next()] == ["$1", "$2"]
    async with harness.stream.subscription("b") as subscription:
        assert len(await subscription.next()) == 3


async def test_readers_wait_for_events(harness: IntakeHarness) -> None:
    """A reader that starts from now receives nothing older."""
    await harness.receive("1", message("$1"))
    async with asyncio.timeout(TIMEOUT), harness.stream.subscription("a", from_now=True) as subscription:
        waiting = asyncio.create_task(subscription.next())
        await harness.receive("2", message("$2"))
        assert [entry.event.event_id for entry in await waiting] == ["$2"]


async def test_events_of_another_process_are_read(harness: IntakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It notifies the others; no polling is needed."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 3_600.0)
    async with asyncio.timeout(TIMEOUT), pool_on(harness.database.address) as pool:
        elsewhere = IntakeStream(pool)
        elsewhere.start()
        async with elsewhere.subscription("a") as subscription:
            waiting = asyncio.create_task(subscription.next())
            await asyncio.sleep(0)
            await harness.receive("1", message("$1"))
            assert [entry.event.event_id for entry in await waiting] == ["$1"]
        await elsewhere.close()


async def test_readers_poll_without_a_notification(harness: IntakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may be killed between commit and notification."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.CHECK_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.Session.notify", lambda *_: None)
    async with asyncio.timeout(TIMEOUT), pool_on(harness.database.address) as pool:
        elsewhere = IntakeStream(pool)
        elsewhere.start()
        async with elsewhere.subscription("a") as subscription:
            waiting = asyncio.create_task(subscription.next())
            await asyncio.sleep(0)
            await harness.receive("1", message("$1"))
            assert [entry.event.event_id for entry in await waiting] == ["$1"]
        await elsewhere.close()


async def test_unwanted_events_are_skipped(harness: IntakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor follows now and then, so that they can be pruned."""
    monkeypatch.setattr("federation.stream.event_stream.MAX_SKIPPED", 2)
    for number in range(5):
        await harness.receive(str(number), message(f"${number}"))
    await harness.receive("5", message("$5", type="stop"))
    async with asyncio.timeout(TIMEOUT), harness.stream.subscription("a", wanted=_says_stop) as subscription:
        (entry,) = await subscription.next(1)
        assert entry.event.event_id == "$5"
        cursors = await harness.database.read(consumers.list_cursors)
        assert entry.position - 3 <= cursors["a"] < entry.position


async def test_newest_reader_of_a_name_wins(harness: IntakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous one cannot commit any more."""
    monkeypatch.setattr("federation.stream.event_stream.CONFIRMED_FOR", 0.0)
    await harness.receive("1", message("$1"))
    async with harness.stream.subscription("a") as subscription:
        (entry,) = await subscription.next()
        async with harness.database.transaction() as connection:
            await consumers.begin_term(connection, "a", 0)
        with pytest.raises(ReaderReplaced):
            await subscription.next()
        with pytest.raises(ReaderReplaced):
            async with harness.database.transaction() as connection:
                await subscription.advance(connection, entry.position)
