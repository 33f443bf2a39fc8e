"""Ephemeral data of local users as another server receives it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from federation.local_users.ephemeral_sender import PRESENCE_REPEAT_MS, TYPING_REPEAT_MS, EphemeralSender
from federation.transactions.edu_dispatcher import EduDispatcher, EduUpdate, ReceivedCustomEdu, TypingUsers
from federation.transactions.edus import Receipt, UserPresence
from storage.federation.edus import fetch_receipts
from tests.federation.local_users.homes import Home, homes
from tests.support.postgres import Server

TYPES = ("m.typing", "m.presence", "m.receipt", "io.x")


@dataclass
class Ours:
    """`room_id` is a room with a local user and a user of another server; `heard` is what that server
    receives."""

    here: Home
    there: Home
    room_id: str
    user: str
    own: EphemeralSender
    news: EduDispatcher
    reports: "asyncio.Queue[str]"
    heard: "asyncio.Queue[EduUpdate]" = field(default_factory=asyncio.Queue)
    now: int = 1_000_000


@pytest.fixture
async def ours(postgres_server: Server, migrated_template: str) -> AsyncIterator[Ours]:
    async with (
        homes(postgres_server, migrated_template) as running,
        made_of(*await running.start("here.test", "there.test")) as made,
    ):
        yield made


@asynccontextmanager
async def made_of(here: Home, there: Home) -> AsyncIterator[Ours]:
    alice, bob = await here.user("alice"), await there.user("bob")
    room_id = await here.room(alice)
    await there.rooms.join(room_id, bob, via=["here.test"])
    made: Ours
    reports: asyncio.Queue[str] = asyncio.Queue()

    def now_ms() -> int:
        return made.now

    news = EduDispatcher("here.test", here.database, now_ms=now_ms)
    own = EphemeralSender(
        here.database, here.graph, here.homeserver.outbox, news, now_ms=now_ms, report=reports.put_nowait
    )
    made = Ours(here, there, room_id, alice, own, news, reports)
    for type_ in TYPES:
        there.rooms.listen(type_, made.heard.put_nowait)
    own.start()
    try:
        yield made
    finally:
        await own.close()
        await news.close()


async def test_typing_is_sent_and_repeated(ours: Ours) -> None:
    """Not for each key stroke, but often enough for servers that time it out after a minute; the end is
    sent too."""
    for _ in range(3):
        await ours.own.set_typing(ours.room_id, ours.user, typing=True, timeout_ms=30_000)
    assert await ours.heard.get() == TypingUsers(ours.room_id, (ours.user,))
    told_at = ours.own._typing_sent_at[ours.room_id]
    assert told_at == {ours.user: ours.now}
    ours.now += TYPING_REPEAT_MS
    await ours.own.set_typing(ours.room_id, ours.user, typing=True, timeout_ms=30_000)
    assert told_at == {ours.user: ours.now}
    for _ in range(2):
        await ours.own.set_typing(ours.room_id, ours.user, typing=False, timeout_ms=30_000)
    assert await ours.heard.get() == TypingUsers(ours.room_id, ())
    assert ours.own._typing_sent_at == {}


async def test_presence_is_sent_once_for_several_changes(ours: Ours) -> None:
    """To the servers of the user's rooms; it is repeated before it times out and when the user joins a
    room."""
    online = UserPresence(ours.user, "online")
    ours.own.set_presence(UserPresence(ours.user, "unavailable"))
    ours.own.set_presence(online)
    ours.own.set_presence(online)
    assert await ours.heard.get() == online
    assert ours.news.presence_of(ours.user) == online
    # Not due yet; then due.
    ours.own.repeat_presence()
    ours.now += PRESENCE_REPEAT_MS
    ours.own.repeat_presence()
    assert await ours.heard.get() == online
    ours.own.resend_presence("@never:here.test")
    ours.own.resend_presence(ours.user)
    assert await ours.heard.get() == online
    ours.own.set_presence(UserPresence(ours.user, "offline"))
    assert await ours.heard.get() == UserPresence(ours.user, "offline")
    ours.now += PRESENCE_REPEAT_MS
    ours.own.repeat_presence()
    assert ours.own._changed == set()


async def test_only_the_last_of_several_receipts_is_sent(ours: Ours) -> None:
    """Each is committed at once; a repeated one is ignored."""
    for number in (1, 2, 2):
        await ours.own.add_receipt(Receipt(ours.room_id, ours.user, f"${number}", number))
    async with ours.here.database.transaction() as connection:
        assert [row.event_id for row in await fetch_receipts(connection, ours.room_id)] == ["$2"]
    # On a slow machine the first one may be sent before the second is added.
    while await ours.heard.get() != Receipt(ours.room_id, ours.user, "$2", 2):
        continue
    assert ours.own._unsent == {}
    assert ours.heard.empty()


async def test_a_failure_is_reported_and_the_next_update_is_sent(ours: Ours) -> None:
    """The background task continues."""
    async with ours.here.database.connection() as connection:
        await connection.execute("ALTER TABLE rooms RENAME TO gone")
        with capture_logs() as logs:
            await ours.own.add_receipt(Receipt(ours.room_id, ours.user, "$1", 1))
            while not any(entry.get("task") == "receipts and presence" for entry in logs):
                await asyncio.sleep(0.01)
        await connection.execute("ALTER TABLE gone RENAME TO rooms")
    await ours.own.add_receipt(Receipt(ours.room_id, ours.user, "$2", 2))
    assert await ours.heard.get() == Receipt(ours.room_id, ours.user, "$2", 2)


async def test_presence_is_repeated_after_an_unexpected_exception(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    """The background task does not end silently."""
    monkeypatch.setattr("federation.local_users.ephemeral_sender.REPEAT_CHECK_INTERVAL", 0.01)
    now, fails, failed = 1_000_000, False, asyncio.Event()

    def now_ms() -> int:
        nonlocal fails
        if fails:
            fails = False
            failed.set()
            raise ValueError("broken")
        return now

    own = EphemeralSender(ours.here.database, ours.here.graph, ours.here.homeserver.outbox, ours.news, now_ms=now_ms)
    own.start()
    try:
        async with asyncio.timeout(30):
            own.set_presence(UserPresence(ours.user, "online", 0, True))
            assert isinstance(await ours.heard.get(), UserPresence)
            fails = True
            await failed.wait()
            now += PRESENCE_REPEAT_MS
            assert isinstance(await ours.heard.get(), UserPresence)
    finally:
        await own.close()


async def test_a_custom_edu_replaces_the_queued_one(ours: Ours) -> None:
    """With the same type, room and name; others are not replaced."""
    for number, name in enumerate(["a", "b", "a"]):
        await ours.own.send_edu(ours.room_id, "io.x", {"name": name, "n": number}, name)
    newest: dict[object, object] = {}
    while newest != {"a": 2, "b": 1}:
        said = await ours.heard.get()
        assert isinstance(said, ReceivedCustomEdu)
        newest[said.edu.content["name"]] = said.edu.content["n"]
