"""What ghosts do that is worth something for a moment: told to those here at once, and to the homeserver as
soon as may be. Nobody waits for it, and of what has changed again meanwhile only the last is told."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache
from mautrix.api import Method, Path, PathBuilder

from appservice.homeserver.client import HomeserverClient
from federation.matrix.errors import MatrixError
from federation.transactions.edu_dispatcher import EduDispatcher, EduUpdate
from federation.transactions.edus import Receipt, UserPresence
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.federation.edus import ReceiptRow, write_receipts

PRESENCE_TOLD_AGAIN_MS: Final = 20_000
"""A homeserver takes for gone who has not shown itself for half a minute."""
MOST_REMEMBERED: Final = 10_000
MOST_WAITING: Final = 10_000
GATHERED: Final = 0.2
"""Seconds for which receipts of others are gathered before they are kept."""
ASKED_AGAIN: Final = 1.0
"""Seconds until the homeserver is told again that did not answer."""

_PRESENCE: Final = "presence"

Key = tuple[str, ...]
ReceiptKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Telling:
    """`until` is when it is worth nothing any more, in milliseconds."""

    method: Method
    path: PathBuilder
    content: Mapping[str, Any]
    user: str
    until: int | None = None


class OwnMoments:
    """Whoever calls has seen that the users are ours and in the rooms. It runs between `start` and `close`.
    `report` is given a sentence about what could not be told."""

    def __init__(
        self,
        client: HomeserverClient,
        database: Database,
        news: EduDispatcher,
        *,
        ensure_user: Callable[[str], Awaitable[None]],
        now_ms: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._database = database
        self._news = news
        self._ensure_user = ensure_user
        self._now_ms = now_ms
        self._report = report
        # Until when the homeserver takes somebody to be typing.
        self._typing: LRUCache[tuple[str, str], int] = LRUCache(MOST_REMEMBERED)
        self._presence: LRUCache[str, tuple[UserPresence, int]] = LRUCache(MOST_REMEMBERED)
        self._read: LRUCache[Key, str] = LRUCache(MOST_REMEMBERED)
        self._waiting: dict[Key, _Telling] = {}
        self._something = asyncio.Event()
        self._heard: dict[ReceiptKey, ReceiptRow] = {}
        self._receipts = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._end = news.listen("m.receipt", self._hear)

    def start(self) -> None:
        self._tasks.supervise("typing, presence and receipts", self._tell_all)
        self._tasks.supervise("receipts of people", self._keep_receipts)

    async def close(self) -> None:
        self._end()
        await self._tasks.close()

    # -- what ghosts do --

    def type(self, room_id: str, user: str, *, typing: bool, lasts_ms: int) -> None:
        self._news.set_typing(room_id, user, typing=typing, timeout_ms=lasts_ms)
        now, until = self._now_ms(), self._typing.get((room_id, user)) or 0
        if typing:
            if until - now >= lasts_ms / 2:
                return
            self._typing[room_id, user] = now + lasts_ms
        else:
            if until <= now:
                return
            self._typing.pop((room_id, user), None)
        content = {"typing": True, "timeout": lasts_ms} if typing else {"typing": False}
        path = Path.v3.rooms[room_id].typing[user]
        self._wait(("typing", room_id, user), _Telling(Method.PUT, path, content, user, now + lasts_ms))

    def be(self, user: UserPresence) -> None:
        known, told = self._presence.get(user.user_id) or (None, 0)
        now = self._now_ms()
        if user == known and now - told < PRESENCE_TOLD_AGAIN_MS:
            return
        self._presence[user.user_id] = (user, now)
        if user != known:
            self._news.set_presence(user)
        content: dict[str, Any] = {"presence": user.presence}
        if user.status_msg is not None:
            content["status_msg"] = user.status_msg
        path = Path.v3.presence[user.user_id].status
        self._wait((_PRESENCE, user.user_id), _Telling(Method.PUT, path, content, user.user_id))

    async def read(self, receipt: Receipt) -> None:
        """Kept when it returns."""
        key = "receipt", receipt.room_id, receipt.user_id, receipt.thread_id or ""
        if self._read.get(key) == receipt.event_id:
            return
        async with self._database.transaction() as connection:
            await write_receipts(connection, [_row(receipt)])
        self._read[key] = receipt.event_id
        self._news.notify(receipt)
        content = {} if receipt.thread_id is None else {"thread_id": receipt.thread_id}
        path = Path.v3.rooms[receipt.room_id].receipt["m.read"][receipt.event_id]
        self._wait(key, _Telling(Method.POST, path, content, receipt.user_id))

    def unkept(self, room_id: str) -> list[ReceiptRow]:
        """Receipts that have been heard, and are not in the database yet."""
        return [row for row in self._heard.values() if row.room_id == room_id]

    # -- inside --

    def _wait(self, key: Key, telling: _Telling) -> None:
        if key in self._waiting or len(self._waiting) < MOST_WAITING:
            self._waiting[key] = telling
            self._something.set()

    async def _tell_all(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            telling = self._waiting.pop(key)
            if telling.until is None or telling.until > self._now_ms():
                await self._tell(key, telling)
        self._something.clear()
        await self._something.wait()

    async def _tell(self, key: Key, telling: _Telling) -> None:
        try:
            if key[0] == _PRESENCE:
                # An agent is there from the first moment on, and its ghost is made when it is needed.
                await self._ensure_user(telling.user)
            await self._client.ask(telling.method, telling.path, telling.content, user=telling.user)
        except MatrixError as refused:
            self._report(f"The homeserver refuses what {telling.user} does ({key[0]}): {refused.text}")
        except ConnectionLost:
            # The homeserver, or the database. Whoever watches them says that they are away.
            self._waiting.setdefault(key, telling)
            await asyncio.sleep(ASKED_AGAIN)

    def _hear(self, said: EduUpdate) -> None:
        assert isinstance(said, Receipt), "what is told under m.receipt"
        key = said.room_id, said.user_id, said.thread_id or ""
        known = self._heard.get(key)
        if known is None and len(self._heard) >= MOST_WAITING:
            return
        if known is None or known.ts <= said.ts:
            self._heard[key] = _row(said)
            self._receipts.set()

    async def _keep_receipts(self) -> None:
        await self._receipts.wait()
        await asyncio.sleep(GATHERED)
        self._receipts.clear()
        heard = dict(self._heard)
        try:
            async with self._database.transaction() as connection:
                await write_receipts(connection, list(heard.values()))
        except BaseException:
            self._receipts.set()
            raise
        for key, row in heard.items():
            if self._heard.get(key) is row:
                del self._heard[key]


def _row(receipt: Receipt) -> ReceiptRow:
    return ReceiptRow(receipt.room_id, receipt.user_id, receipt.thread_id or "", receipt.event_id, receipt.ts)
