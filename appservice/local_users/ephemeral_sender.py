"""Sends typing, presence and receipts of ghosts: to local listeners at once, to the homeserver in the
background. Callers do not wait, and a newer value replaces one that is still queued."""

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

PRESENCE_REFRESH_MS: Final = 20_000
"""A homeserver sets users offline half a minute after their last presence update."""
MAX_CACHED: Final = 10_000
MAX_WAITING: Final = 10_000
RECEIPT_BATCH_DELAY: Final = 0.2
"""Seconds for which received receipts are collected before they are stored."""
RETRY_DELAY: Final = 1.0
"""Seconds until an update is retried after the homeserver did not respond."""

_PRESENCE: Final = "presence"

Key = tuple[str, ...]
ReceiptKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _PendingUpdate:
    """`until` is when the update expires, in milliseconds."""

    method: Method
    path: PathBuilder
    content: Mapping[str, Any]
    user: str
    until: int | None = None


class EphemeralSender:
    """The caller has checked that the users are ghosts and in the rooms. It runs between `start` and `close`.
    `report` receives a sentence about an update that failed."""

    def __init__(
        self,
        client: HomeserverClient,
        database: Database,
        ephemeral: EduDispatcher,
        *,
        ensure_user: Callable[[str], Awaitable[None]],
        now_ms: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._database = database
        self._ephemeral = ephemeral
        self._ensure_user = ensure_user
        self._now_ms = now_ms
        self._report = report
        # Until when the homeserver shows a user as typing.
        self._typing: LRUCache[tuple[str, str], int] = LRUCache(MAX_CACHED)
        self._presence: LRUCache[str, tuple[UserPresence, int]] = LRUCache(MAX_CACHED)
        self._read: LRUCache[Key, str] = LRUCache(MAX_CACHED)
        self._waiting: dict[Key, _PendingUpdate] = {}
        self._update_queued = asyncio.Event()
        self._unwritten: dict[ReceiptKey, ReceiptRow] = {}
        self._receipts = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._unsubscribe = ephemeral.listen("m.receipt", self._receive_receipt)

    def start(self) -> None:
        self._tasks.supervise("typing, presence and receipts", self._send_updates)
        self._tasks.supervise("received receipts", self._write_receipts)

    async def close(self) -> None:
        self._unsubscribe()
        await self._tasks.close()

    # -- what ghosts do --

    def set_typing(self, room_id: str, user: str, *, typing: bool, lasts_ms: int) -> None:
        self._ephemeral.set_typing(room_id, user, typing=typing, timeout_ms=lasts_ms)
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
        self._queue(("typing", room_id, user), _PendingUpdate(Method.PUT, path, content, user, now + lasts_ms))

    def set_presence(self, user: UserPresence) -> None:
        known, sent_at = self._presence.get(user.user_id) or (None, 0)
        now = self._now_ms()
        if user == known and now - sent_at < PRESENCE_REFRESH_MS:
            return
        self._presence[user.user_id] = (user, now)
        if user != known:
            self._ephemeral.set_presence(user)
        content: dict[str, Any] = {"presence": user.presence}
        if user.status_msg is not None:
            content["status_msg"] = user.status_msg
        path = Path.v3.presence[user.user_id].status
        self._queue((_PRESENCE, user.user_id), _PendingUpdate(Method.PUT, path, content, user.user_id))

    async def mark_read(self, receipt: Receipt) -> None:
        """On return the receipt is stored."""
        key = "receipt", receipt.room_id, receipt.user_id, receipt.thread_id or ""
        if self._read.get(key) == receipt.event_id:
            return
        async with self._database.transaction() as connection:
            await write_receipts(connection, [_row(receipt)])
        self._read[key] = receipt.event_id
        self._ephemeral.notify(receipt)
        content = {} if receipt.thread_id is None else {"thread_id": receipt.thread_id}
        path = Path.v3.rooms[receipt.room_id].receipt["m.read"][receipt.event_id]
        self._queue(key, _PendingUpdate(Method.POST, path, content, receipt.user_id))

    def unwritten(self, room_id: str) -> list[ReceiptRow]:
        """Received receipts that are not in the database yet."""
        return [row for row in self._unwritten.values() if row.room_id == room_id]

    # -- internals --

    def _queue(self, key: Key, update: _PendingUpdate) -> None:
        if key in self._waiting or len(self._waiting) < MAX_WAITING:
            self._waiting[key] = update
            self._update_queued.set()

    async def _send_updates(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            update = self._waiting.pop(key)
            if update.until is None or update.until > self._now_ms():
                await self._send(key, update)
        self._update_queued.clear()
        await self._update_queued.wait()

    async def _send(self, key: Key, update: _PendingUpdate) -> None:
        try:
            if key[0] == _PRESENCE:
                # An agent has presence before its ghost is registered, which happens on demand.
                await self._ensure_user(update.user)
            await self._client.request(update.method, update.path, update.content, user=update.user)
        except MatrixError as refused:
            self._report(f"The homeserver refuses {key[0]} of {update.user}: {refused.text}")
        except ConnectionLost:
            # The homeserver or the database is unavailable; their monitors report it.
            self._waiting.setdefault(key, update)
            await asyncio.sleep(RETRY_DELAY)

    def _receive_receipt(self, receipt: EduUpdate) -> None:
        assert isinstance(receipt, Receipt), "the listener is registered for m.receipt"
        key = receipt.room_id, receipt.user_id, receipt.thread_id or ""
        known = self._unwritten.get(key)
        if known is None and len(self._unwritten) >= MAX_WAITING:
            return
        if known is None or known.ts <= receipt.ts:
            self._unwritten[key] = _row(receipt)
            self._receipts.set()

    async def _write_receipts(self) -> None:
        await self._receipts.wait()
        await asyncio.sleep(RECEIPT_BATCH_DELAY)
        self._receipts.clear()
        batch = dict(self._unwritten)
        try:
            async with self._database.transaction() as connection:
                await write_receipts(connection, list(batch.values()))
        except BaseException:
            self._receipts.set()
            raise
        for key, row in batch.items():
            if self._unwritten.get(key) is row:
                del self._unwritten[key]


def _row(receipt: Receipt) -> ReceiptRow:
    return ReceiptRow(receipt.room_id, receipt.user_id, receipt.thread_id or "", receipt.event_id, receipt.ts)
