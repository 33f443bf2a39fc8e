"""Sending ephemeral data to the homeserver."""

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
    """A fake homeserver that records requests, unless it is `away`."""

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


async def test_typing_is_sent_on_change(moments: Moments) -> None:
    """Continued typing is refreshed after half of the timeout."""
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


async def test_presence_is_refreshed(moments: Moments) -> None:
    """When it is set again; local listeners only receive changes."""
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
    # The user may not be registered yet.
    assert moments.ensured == [COOK, COOK]
    assert moments.news.presence_of(COOK) == online


async def test_last_value_wins(moments: Moments) -> None:
    """Updates are retried while the homeserver does not respond, unless they expire."""
    moments.away = 1
    moments.own.set_typing(ROOM, COOK, typing=True, lasts_ms=1)
    for word in ("a", "b", "c"):
        moments.own.set_presence(UserPresence(COOK, "online", 0, True, word))
    moments.now += 1_000
    await moments.until(1)
    assert [path for path, _ in moments.heard] == [f"presence/{COOK}/status"]
    assert await moments.heard[0][1].json() == {"presence": "online", "status_msg": "c"}
    assert moments.reported == []


async def test_receipts_are_stored_and_sent(moments: Moments) -> None:
    """A ghost's receipt before the call returns; those of people in batches, and the newest wins."""
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
            await asyncio.sleep(0.01)  # a commit sends no notification
    async with moments.database.transaction(readonly=True) as connection:
        kept = {(row.user_id, row.thread_id): row.event_id for row in await fetch_receipts(connection, ROOM)}
    assert kept == {(COOK, ""): "$1", (COOK, "main"): "$2", (ALICE, ""): "$3"}


async def test_loops_continue_after_an_error(moments: Moments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sending and storing."""
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


async def test_refusals_are_reported(moments: Moments) -> None:
    """And do not affect later updates."""
    moments.refuses = True
    moments.own.set_presence(UserPresence(COOK, "online", 0, True))
    moments.own.set_presence(UserPresence(ALICE, "online", 0, True))
    await moments.until(2)
    async with asyncio.timeout(20):
        while len(moments.reported) < 2:
            await asyncio.sleep(0)
    assert moments.reported[0] == f"The homeserver refuses presence of {COOK}: No."
