"""Typing, receipts, presence and custom EDUs of local users: passed to local listeners and to the servers
of their rooms. Several changes in a short time are sent as one."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from cachetools import LRUCache

from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.outbox.outbox import Outbox
from federation.rooms.engine import RoomGraph
from federation.transactions import outgoing_edus
from federation.transactions.edu_dispatcher import EduDispatcher, EduUpdate, TypingUsers
from federation.transactions.edus import MAX_CUSTOM_EDU_BYTES, Receipt, Typing, UserPresence
from federation.transactions.outgoing_edus import OutgoingEdu
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.federation.edus import ReceiptRow, write_receipts
from storage.rooms.rooms import fetch_rooms_of_users

TYPING_REPEAT_MS: Final = 20_000
"""How often typing is repeated. Receivers time it out after about 60 seconds."""
PRESENCE_REPEAT_MS: Final = 25 * 60_000
"""How often presence is repeated. Receivers time it out after half an hour."""
BATCH_SECONDS: Final = 0.2
"""Seconds for which changes of presence and receipts are collected before they are sent."""
REPEAT_CHECK_INTERVAL: Final = 60.0
"""Seconds between two checks of which presence has to be repeated."""
EDU_MAX_AGE_MS: Final = 60_000
MAX_PRESENT: Final = 100_000
MAX_RECEIPTS: Final = 10_000


class EphemeralSender:
    """Sends the ephemeral data of local users. Runs between `start` and `close`.

    The caller has checked that the users are local and joined to the rooms."""

    def __init__(
        self,
        database: Database,
        rooms: RoomGraph,
        outbox: Outbox,
        edus: EduDispatcher,
        *,
        now_ms: Callable[[], int],
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._report = report
        self._database = database
        self._rooms = rooms
        self._outbox = outbox
        self._edus = edus
        self._now_ms = now_ms
        self._typing_sent_at: dict[str, dict[str, int]] = {}
        self._presence: LRUCache[str, UserPresence] = LRUCache(MAX_PRESENT)
        self._presence_sent_at: dict[str, int] = {}
        self._changed: set[str] = set()
        self._latest_receipts: LRUCache[tuple[str, str, str | None], Receipt] = LRUCache(MAX_RECEIPTS)
        self._unsent: dict[tuple[str, str, str | None], Receipt] = {}
        self._has_changes = asyncio.Event()
        self._tasks = BackgroundTasks()
        edus.listen("m.typing", self._send_stopped_typing)

    def start(self) -> None:
        self._tasks.supervise("receipts and presence", self._send)
        self._tasks.supervise("repeated presence", self._repeat_presence, every=REPEAT_CHECK_INTERVAL)

    async def close(self) -> None:
        await self._tasks.close()

    # -- operations --

    async def set_typing(self, room_id: str, user: str, *, typing: bool, timeout_ms: int) -> None:
        self._edus.set_typing(room_id, user, typing=typing, timeout_ms=timeout_ms)
        if not typing or user not in self._edus.typing_users(room_id):
            return
        sent_at, now = self._typing_sent_at.setdefault(room_id, {}), self._now_ms()
        if user not in sent_at or now - sent_at[user] >= TYPING_REPEAT_MS:
            sent_at[user] = now
            await self._send_typing(room_id, user, typing=True)

    def set_presence(self, user: UserPresence) -> None:
        if user == self._presence.get(user.user_id):
            return
        self._presence[user.user_id] = user
        self._edus.set_presence(user)
        self._changed.add(user.user_id)
        self._has_changes.set()

    def resend_presence(self, user: str) -> None:
        """Send the user's presence again, because the user has joined a room whose servers may not know
        it."""
        if self._presence.get(user) is not None:
            self._changed.add(user)
            self._has_changes.set()

    async def add_receipt(self, receipt: Receipt) -> None:
        """Store and send a read receipt. It is committed when this returns."""
        key = receipt.room_id, receipt.user_id, receipt.thread_id
        known = self._latest_receipts.get(key)
        if known is not None and known.event_id == receipt.event_id:
            return
        row = ReceiptRow(receipt.room_id, receipt.user_id, receipt.thread_id or "", receipt.event_id, receipt.ts)
        async with self._database.transaction() as connection:
            await write_receipts(connection, [row])
        self._latest_receipts[key] = receipt
        self._edus.notify(receipt)
        self._unsent[key] = receipt
        self._has_changes.set()

    async def send_edu(self, room_id: str, edu_type: str, content: Mapping[str, Any], name: str) -> None:
        """Send an EDU of a custom type to the servers of a room. Queued EDUs with the same type, room and
        `name` are replaced."""
        if edu_type.startswith("m."):
            raise MatrixError(
                "M_INVALID_PARAM", "EDU types of the specification (m.*) cannot be sent as custom EDUs.", 400
            )
        try:
            size = len(encode(dict(content)))
        except NotCanonical as problem:
            raise MatrixError("M_BAD_JSON", f"The EDU cannot be encoded as canonical JSON: {problem}.", 400) from None
        if size > MAX_CUSTOM_EDU_BYTES:
            raise MatrixError(
                "M_TOO_LARGE", f"The content of an EDU must have at most {MAX_CUSTOM_EDU_BYTES} bytes.", 413
            )
        edu = OutgoingEdu(edu_type, content, f"{edu_type} {room_id} {name}", EDU_MAX_AGE_MS)
        self._outbox.send_lossy(await self._rooms.servers_in_room(room_id), edu)

    # -- to other servers --

    def _send_stopped_typing(self, update: EduUpdate) -> None:
        """Notify other servers of users who have stopped typing or whose typing has timed out."""
        assert isinstance(update, TypingUsers), "the update of m.typing"
        sent_at = self._typing_sent_at.get(update.room_id, {})
        for user in sent_at.keys() - update.user_ids:
            del sent_at[user]
            self._tasks.spawn("typing", self._send_typing(update.room_id, user, typing=False))
        if not sent_at:
            self._typing_sent_at.pop(update.room_id, None)

    async def _send_typing(self, room_id: str, user: str, *, typing: bool) -> None:
        servers = await self._rooms.servers_in_room(room_id)
        self._outbox.send_lossy(servers, outgoing_edus.typing(Typing(room_id, user, typing)))

    async def _send(self) -> None:
        """Send collected receipts and presence. A failure is not retried: the next update replaces this
        one, and presence is repeated."""
        await self._has_changes.wait()
        await asyncio.sleep(BATCH_SECONDS)
        self._has_changes.clear()
        await self._send_receipts()
        await self._send_presence()

    async def _send_receipts(self) -> None:
        receipts, self._unsent = self._unsent, {}
        if not receipts:
            return
        servers = await self._rooms.servers_in_rooms({room_id for room_id, _, _ in receipts})
        for receipt in receipts.values():
            self._outbox.send_lossy(servers.get(receipt.room_id, frozenset()), outgoing_edus.receipt(receipt))

    async def _send_presence(self) -> None:
        """Send changed presence to all servers that share a room with the user."""
        changed, self._changed = self._changed, set()
        if not changed:
            return
        async with self._database.transaction(readonly=True) as connection:
            rooms = await fetch_rooms_of_users(connection, changed)
        servers = await self._rooms.servers_in_rooms({one for ids in rooms.values() for one in ids})
        now = self._now_ms()
        for user_id, room_ids in rooms.items():
            user = self._presence.get(user_id)
            if user is None:
                continue
            to = frozenset().union(*(servers.get(room_id, frozenset()) for room_id in room_ids))
            self._outbox.send_lossy(to, outgoing_edus.presence(user))
            if user.presence == "offline":
                self._presence_sent_at.pop(user_id, None)
            else:
                self._presence_sent_at[user_id] = now

    async def _repeat_presence(self) -> None:
        self.repeat_presence()

    def repeat_presence(self) -> None:
        """Send again the presence of users who are not offline."""
        due = self._now_ms() - PRESENCE_REPEAT_MS
        stale = {user for user, sent_at in self._presence_sent_at.items() if sent_at <= due}
        if stale:
            self._changed |= stale
            self._has_changes.set()
