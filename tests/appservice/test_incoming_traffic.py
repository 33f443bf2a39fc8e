"""The parts that receive the homeserver's transactions."""

import asyncio
from datetime import timedelta

import pytest

from appservice import appservice as incoming
from appservice.appservice import IncomingTraffic, open_incoming_traffic, publish_ephemeral
from appservice.intake import intake
from appservice.intake.transaction import read
from federation.transactions.edu_dispatcher import EduUpdate, TypingUsers
from federation.transactions.edus import UserPresence
from storage.database import Database
from storage.rooms import stream as consumers
from tests.appservice.events import ALICE, message, transaction
from tests.appservice.intakes import OURS

TIMEOUT = 60.0
ROOM = "!r:their.server"


async def taken_in(given: IncomingTraffic, name: str, *events: object, **more: object) -> None:
    assert await given.intake.receive(name, read(transaction(*events, **more)))


async def test_events_and_ephemeral_data(database: Database) -> None:
    """Events reach the stream, ephemeral data its listeners, after the commit."""
    heard: asyncio.Queue[EduUpdate] = asyncio.Queue()
    typing = {"type": "m.typing", "room_id": ROOM, "content": {"user_ids": [ALICE]}}
    presence = {"type": "m.presence", "sender": ALICE, "content": {"presence": "online"}}
    async with (
        asyncio.timeout(TIMEOUT),
        open_incoming_traffic("palaver", OURS, database, now_ms=lambda: 1_000) as given,
        given.stream.subscription("a") as subscription,
    ):
        for type_ in ("m.typing", "m.presence"):
            given.ephemeral.listen(type_, heard.put_nowait)
        waiting = asyncio.create_task(subscription.next())
        await taken_in(given, "1", message("$1"), ephemeral=[typing, presence])
        assert [entry.event.event_id for entry in await waiting] == ["$1"]
        assert await heard.get() == TypingUsers(ROOM, (ALICE,))
        present = await heard.get()
        assert isinstance(present, UserPresence)
        assert given.ephemeral.presence_of(ALICE) == present
        assert given.ephemeral.typing_users(ROOM) == (ALICE,)


async def test_missing_users_have_stopped_typing(database: Database) -> None:
    """The homeserver sends the complete list; unchanged users are not reported again."""
    bob = "@bob:their.server"
    heard: list[EduUpdate] = []
    async with open_incoming_traffic("palaver", OURS, database, now_ms=lambda: 1_000) as given:
        given.ephemeral.listen("m.typing", heard.append)
        publish_ephemeral(given.ephemeral, TypingUsers(ROOM, (ALICE,)))
        publish_ephemeral(given.ephemeral, TypingUsers(ROOM, (ALICE,)))
        assert heard == [TypingUsers(ROOM, (ALICE,))]
        publish_ephemeral(given.ephemeral, TypingUsers(ROOM, (bob,)))
        assert heard[-1] == TypingUsers(ROOM, (bob,))
        publish_ephemeral(given.ephemeral, TypingUsers(ROOM, ()))
        assert heard[-1] == TypingUsers(ROOM, ())


async def test_expired_events_are_pruned(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regularly, beginning at the start."""
    monkeypatch.setattr(intake, "RETENTION", timedelta(seconds=-1))
    monkeypatch.setattr(incoming, "PRUNED_EVERY", 0.01)
    async with (
        asyncio.timeout(TIMEOUT),
        open_incoming_traffic("palaver", OURS, database, now_ms=lambda: 1_000) as given,
        given.stream.subscription("a") as subscription,
    ):
        await taken_in(given, "1", message("$1"))
        (entry,) = await subscription.next()
        async with database.transaction() as connection:
            await subscription.advance(connection, entry.position)
        while (await given.stream.read(0)).last_position:
            await asyncio.sleep(0.01)
        assert (await database.read(consumers.list_cursors))["a"] == entry.position
