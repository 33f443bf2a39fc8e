"""Distribution of EDUs to listeners."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from federation.transactions import edu_dispatcher
from federation.transactions.edu_dispatcher import (
    MAX_DEVICE_MESSAGES,
    EduDispatcher,
    EduUpdate,
    ReceivedCustomEdu,
    TypingUsers,
)
from federation.transactions.edus import (
    CustomEdu,
    DeviceListUpdate,
    Presence,
    Receipt,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
    UserPresence,
)
from storage.database import Database
from storage.federation.edus import fetch_messages
from storage.federation.users import insert_user
from storage.rooms.outside_memberships import OutsideMembership
from storage.rooms.rooms import CurrentStateRow, write_current_state

US, THEM, ROOM = "@us:here.test", "@them:there.test", "!r:there.test"


@dataclass
class News:
    news: EduDispatcher
    seen: list[tuple[str, str]] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    woken: int = 0
    heard: "asyncio.Queue[EduUpdate]" = field(default_factory=asyncio.Queue)
    now: int = 1_000_000

    def listen(self, *types: str) -> None:
        for type_ in types:
            self.news.listen(type_, self.heard.put_nowait)


@asynccontextmanager
async def news_on(database: Database) -> AsyncIterator[News]:
    made: News
    reports: list[str] = []

    def seen_by(server: str, event_ids: Iterable[str]) -> None:
        made.seen += [(server, event_id) for event_id in event_ids]

    def woken() -> None:
        made.woken += 1

    news = EduDispatcher(
        "here.test",
        database,
        now_ms=lambda: made.now,
        on_events_seen=seen_by,
        wake_readers=woken,
        report=reports.append,
    )
    made = News(news, reports=reports)
    try:
        yield made
    finally:
        await news.close()


async def test_remote_typing_times_out(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops sending does not leave its user typing for ever."""
    async with news_on(database) as made:
        made.listen("m.typing")
        made.news.handle_typing(Typing(ROOM, THEM, True))
        made.news.handle_typing(Typing(ROOM, THEM, True))
        assert made.heard.get_nowait() == TypingUsers(ROOM, (THEM,))
        assert made.heard.empty()
        made.news.handle_typing(Typing(ROOM, THEM, False))
        assert made.heard.get_nowait() == TypingUsers(ROOM, ())
        monkeypatch.setattr(edu_dispatcher, "REMOTE_TYPING_TIMEOUT_MS", 1)
        made.news.handle_typing(Typing(ROOM, THEM, True))
        assert made.heard.get_nowait() == TypingUsers(ROOM, (THEM,))
        made.now += 1
        assert await made.heard.get() == TypingUsers(ROOM, ())
        assert made.news.typing_users(ROOM) == ()


async def test_receipts_notify_listeners_and_confirm_delivery(database: Database) -> None:
    """The server of a user has the event that the user has read."""
    async with news_on(database) as made:
        made.listen("m.receipt")
        receipts = (Receipt(ROOM, THEM, "$1", 5), Receipt(ROOM, THEM, "$2", 6, "main"))
        made.news.handle_receipts(Receipts(receipts))
        assert [made.heard.get_nowait() for _ in receipts] == list(receipts)
        assert made.seen == [("there.test", "$1"), ("there.test", "$2")]


async def test_presence_is_kept_of_users_in_shared_rooms(database: Database) -> None:
    """Presence of unrelated users could otherwise fill the memory."""
    async with database.transaction() as connection:
        row = CurrentStateRow(ROOM, "m.room.member", THEM, "$m", "join", "there.test")
        await write_current_state(connection, [row])
    async with news_on(database) as made:
        made.listen("m.presence")
        met, stranger = UserPresence(THEM, "online"), UserPresence("@stranger:there.test", "online")
        made.news.handle_presence(Presence((stranger, met)))
        made.news.handle_presence(Presence((met,)))
        assert await made.heard.get() == met
        assert made.news.presence_of(THEM) == met
        assert made.news.presence_of("@stranger:there.test") is None


async def test_pending_presence_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several pending updates of a user the latest counts."""
    monkeypatch.setattr(edu_dispatcher, "MAX_PENDING_PRESENCE", 2)
    async with database.transaction() as connection:
        rows = [
            CurrentStateRow(ROOM, "m.room.member", f"@{n}:there.test", "$m", "join", "there.test") for n in range(3)
        ]
        await write_current_state(connection, rows)
    async with news_on(database) as made:
        made.listen("m.presence")
        for state in ("online", "offline"):
            made.news.handle_presence(Presence(tuple(UserPresence(f"@{n}:there.test", state) for n in range(3))))
        told = {await made.heard.get() for _ in range(2)}
        assert told == {UserPresence(f"@{n}:there.test", "offline") for n in range(2)}
        assert made.news.presence_of("@2:there.test") is None


async def test_to_device_messages_are_stored_for_existing_local_users(database: Database) -> None:
    """Listeners are notified after the commit, and not after a rollback. Beyond the limit the oldest messages
    are deleted."""
    async with database.transaction() as connection:
        await insert_user(connection, US, 1)
    async with news_on(database) as made:
        made.listen("m.direct_to_device")
        message = ToDevice(THEM, "m.x", "1", {US: {"D": {"n": 1}, "*": {}}, THEM: {"*": {}}})
        with contextlib.suppress(KeyError):
            async with database.transaction() as connection:
                await made.news.handle_to_device(connection, message)
                raise KeyError
        async with database.transaction() as connection:
            await made.news.handle_to_device(connection, message)
            assert made.heard.empty()
        assert await made.heard.get() == message
        many = ToDevice(THEM, "m.x", "2", {US: {f"D{n}": {} for n in range(MAX_DEVICE_MESSAGES)}})
        async with database.transaction() as connection:
            await made.news.handle_to_device(connection, many)
        async with database.transaction() as connection:
            kept = await fetch_messages(connection, US, 2 * MAX_DEVICE_MESSAGES)
        assert len(kept) == MAX_DEVICE_MESSAGES
        assert kept[0].device_id == "D0"


async def test_device_updates_and_custom_edus_reach_the_listeners_of_their_type(database: Database) -> None:
    """A listener that was removed receives nothing."""
    async with news_on(database) as made:
        made.listen("m.device_list_update", "m.signing_key_update", "io.x")
        other, end = (CustomEdu("io.x", {"a": 1}), made.news.listen("io.x", lambda said: made.reports.append("late")))
        end()
        device = DeviceListUpdate(THEM, "D", 1, (), False, None, None)
        keys = SigningKeyUpdate(THEM, None, None)
        made.news.handle_device_update(device)
        made.news.handle_device_update(keys)
        made.news.handle_custom("there.test", other)
        made.news.handle_custom("there.test", CustomEdu("io.y", {}))
        assert [made.heard.get_nowait() for _ in range(3)] == [device, keys, ReceivedCustomEdu("there.test", other)]
        assert made.heard.empty()
        assert made.reports == []


async def test_an_exception_of_a_listener_does_not_affect_others(database: Database) -> None:
    """It is reported."""

    def fail(said: EduUpdate) -> None:
        raise KeyError("gone")

    async with news_on(database) as made:
        made.news.listen("io.x", fail)
        made.listen("io.x")
        made.news.handle_custom("there.test", CustomEdu("io.x", {}))
        assert made.heard.qsize() == 1
        assert made.reports == ["A listener for io.x failed: KeyError('gone')"]


async def test_an_invite_wakes_readers_of_the_stream(database: Database) -> None:
    """The invite has a position in the stream since its commit."""
    async with news_on(database) as made:
        invite = OutsideMembership(ROOM, US, "invite", "12", "$1", THEM, "there.test", b"{}", b"[]", 5)
        made.news.invited(invite, None)
        assert made.woken == 1
