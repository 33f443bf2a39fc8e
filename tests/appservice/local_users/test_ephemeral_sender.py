"""What is worth something for a moment, told to the homeserver."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from appservice.local_users.ephemeral_sender import PRESENCE_REFRESH_MS, EphemeralSender
from federation.transactions.edu_dispatcher import EduDispatcher
from federation.transactions.edus import Receipt, UserPresence
from storage.database import Database
from storage.federation.edus import fetch_receipts
from tests.appservice.homeservers import Homeserver, homeserver

COOK, ALICE, ROOM = "@_agent_cook:their.server", "@alice:their.server", "!a:their.server"


class Moments:
    """A homeserver that writes down what it is told, once it is not `away`."""

    def __init__(self, database: Database) -> None:
        self.now = 1_000_000
        self.database = database
        self.heard: list[tuple[str, Any]] = []
        self.reported: list[str] = []
        self.ensured: list[str] = []
        self.away = 0
        self.refuses = False
        self._changed = asyncio.Event()
        self.news = EduDispatcher("their.server", database, now_ms=lambda: self.now)
        self.own: EphemeralSender

    def begin(self, at: Homeserver) -> None:
        self.own = EphemeralSender(
            at.client,
            self.database,
            self.news,
            ensure_user=self.ensure_user,
            now_ms=lambda: self.now,
            report=self.reported.append,
        )
        self.own.start()

    async def ensure_user(self, user: str) -> None:
        self.ensured.append(user)

    def answer(self, request: Any) -> Any:
        self._changed.set()
        if self.away:
            self.away -= 1
            return 503, {"errcode": "M_UNKNOWN", "error": "Later."}
        self.heard.append((request.path.split("/v3/")[1], request))
        if self.refuses:
            return 403, {"errcode": "M_FORBIDDEN", "error": "No."}
        return {}

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(20):
            while len(self.heard) < count:
                self._changed.clear()
                await self._changed.wait()
        return [path for path, _ in self.heard]


@pytest.fixture
async def moments(database: Database) -> AsyncIterator[Moments]:
    moments = Moments(database)
    async with homeserver(moments.answer) as at:
        moments.begin(at)
        yield moments
        await moments.own.close()
        await moments.news.close()


async def test_typing_is_told_when_it_changes(moments: Moments) -> None:
    """Who types on is told of when half of the time is over."""
    own = moments.own
    for _ in range(3):
        own.set_typing(ROOM, COOK, typing=True, lasts_ms=30_000)
    path = f"rooms/{ROOM}/typing/{COOK}"
    assert await moments.until(1) == [path]
    assert moments.news.typing_users(ROOM) == (COOK,)
    moments.now += 16_000
    own.set_typing(ROOM, COOK, typing=True, lasts_ms=30_000)
    await moments.until(2)
    for _ in range(2):
        own.set_typing(ROOM, COOK, typing=False, lasts_ms=30_000)
    await moments.until(3)
    own.set_presence(UserPresence(COOK, "online", 0, True, "cooking"))
    assert await moments.until(4) == [path, path, path, f"presence/{COOK}/status"]
    assert moments.news.typing_users(ROOM) == ()


async def test_presence_is_told_again_before_it_is_forgotten(moments: Moments) -> None:
    """If it is said again; those here are told of a change."""
    told: list[Any] = []
    moments.news.listen("m.presence", told.append)
    online = UserPresence(COOK, "online", 0, True, "cooking")
    for _ in range(3):
        moments.own.set_presence(online)
    await moments.until(1)
    moments.now += PRESENCE_REFRESH_MS
    moments.own.set_presence(online)
    assert await moments.until(2) == [f"presence/{COOK}/status"] * 2
    assert told == [online]
    # It may be the first that the homeserver hears of this user.
    assert moments.ensured == [COOK, COOK]
    assert moments.news.presence_of(COOK) == online


async def test_of_what_changes_quickly_the_last_is_told(moments: Moments) -> None:
    """A homeserver that does not answer is told when it does, but not of what is over by then."""
    moments.away = 1
    moments.own.set_typing(ROOM, COOK, typing=True, lasts_ms=1)
    for word in ("a", "b", "c"):
        moments.own.set_presence(UserPresence(COOK, "online", 0, True, word))
    moments.now += 1_000
    await moments.until(1)
    assert [path for path, _ in moments.heard] == [f"presence/{COOK}/status"]
    assert await moments.heard[0][1].json() == {"presence": "online", "status_msg": "c"}
    assert moments.reported == []


async def test_receipts_are_kept_and_told(moments: Moments) -> None:
    """One's own before it is said to be done; those of people by and by, and the newest counts."""
    own = Receipt(ROOM, COOK, "$1", 5, None)
    told: list[Any] = []
    moments.news.listen("m.receipt", told.append)
    for _ in range(2):
        await moments.own.mark_read(own)
    assert await moments.until(1) == [f"rooms/{ROOM}/receipt/m.read/$1"]
    assert told == [own]
    await moments.own.mark_read(Receipt(ROOM, COOK, "$2", 6, "main"))
    await moments.until(2)
    for ts, event_id in ((9, "$3"), (7, "$4")):
        moments.news.notify(Receipt(ROOM, ALICE, event_id, ts, None))
    assert {row.event_id for row in moments.own.unwritten(ROOM)} >= {"$3"}
    assert moments.own.unwritten("!other:x") == []
    async with asyncio.timeout(20):
        while moments.own.unwritten(ROOM):
            await asyncio.sleep(0.01)  # a commit wakes nobody
    async with moments.database.transaction(readonly=True) as connection:
        kept = {(row.user_id, row.thread_id): row.event_id for row in await fetch_receipts(connection, ROOM)}
    assert kept == {(COOK, ""): "$1", (COOK, "main"): "$2", (ALICE, ""): "$3"}


async def test_it_goes_on_after_an_unforeseen_error(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in telling the homeserver and in keeping receipts."""
    failures = 2

    async def fail(*_: Any) -> None:
        nonlocal failures
        failures -= 1
        monkeypatch.undo()
        raise ValueError("broken")

    monkeypatch.setattr(moments.own, "_ensure_user", fail)
    moments.own.set_presence(UserPresence(COOK, "online", 0, True))
    async with asyncio.timeout(20):
        while failures > 1:
            await asyncio.sleep(0)
    moments.own.set_presence(UserPresence(ALICE, "online", 0, True))
    assert await moments.until(1) == [f"presence/{ALICE}/status"]
    monkeypatch.setattr("appservice.local_users.ephemeral_sender.write_receipts", fail)
    moments.news.notify(Receipt(ROOM, ALICE, "$1", 1, None))
    async with asyncio.timeout(20):
        while moments.own.unwritten(ROOM):
            await asyncio.sleep(0.01)
    assert failures == 0


async def test_a_refusal_is_told_to_the_operator(moments: Moments) -> None:
    """And is no harm to what follows."""
    moments.refuses = True
    moments.own.set_presence(UserPresence(COOK, "online", 0, True))
    moments.own.set_presence(UserPresence(ALICE, "online", 0, True))
    await moments.until(2)
    async with asyncio.timeout(20):
        while len(moments.reported) < 2:
            await asyncio.sleep(0)
    assert moments.reported[0] == f"The homeserver refuses presence of {COOK}: No."
