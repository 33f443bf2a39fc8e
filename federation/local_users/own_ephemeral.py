"""What this server's users do that is worth something for a moment: told to those here and to the servers of
the rooms concerned, several times in a row as once.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from cachetools import LRUCache

from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.outbox.outbox import Outbox
from federation.rooms.engine import RoomGraph
from federation.transactions import edu_making as making
from federation.transactions.edu_making import Outgoing
from federation.transactions.edu_values import MAX_OWN_EDU_BYTES, PresenceOfUser, Receipt, Typing
from federation.transactions.ephemeral import Ephemeral, EphemeralNews, TypingNow
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.federation.edus import ReceiptRow, write_receipts
from storage.rooms.rooms import fetch_rooms_of_users

TYPING_TOLD_AGAIN_MS: Final = 20_000
"""Servers forget after some 60 seconds who does not type on."""
PRESENCE_TOLD_AGAIN_MS: Final = 25 * 60_000
"""Servers take who is silent for half an hour to be gone."""
GATHERED: Final = 0.2
"""Seconds for which changes of presence and receipts are gathered before they go out."""
LOOKED_AT: Final = 60.0
"""Seconds between two looks at whose presence has to be told again."""
EDU_LIVES_MS: Final = 60_000
MOST_PRESENT: Final = 100_000
MOST_READ: Final = 10_000


class OwnEphemeral:
    """Whoever calls has seen that the users are ours and in the rooms. It runs between `start` and `close`.
    `report` is given a sentence about what could not be told."""

    def __init__(
        self,
        database: Database,
        rooms: RoomGraph,
        outbox: Outbox,
        news: EphemeralNews,
        *,
        now_ms: Callable[[], int],
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._report = report
        self._database = database
        self._rooms = rooms
        self._outbox = outbox
        self._news = news
        self._now_ms = now_ms
        self._typing_told: dict[str, dict[str, int]] = {}
        self._presence: LRUCache[str, PresenceOfUser] = LRUCache(MOST_PRESENT)
        self._presence_told: dict[str, int] = {}
        self._changed: set[str] = set()
        self._read: LRUCache[tuple[str, str, str | None], Receipt] = LRUCache(MOST_READ)
        self._unsent: dict[tuple[str, str, str | None], Receipt] = {}
        self._something = asyncio.Event()
        self._tasks = BackgroundTasks()
        news.listen("m.typing", self._typing_changed)

    def start(self) -> None:
        self._tasks.supervise("receipts and presence", self._send)
        self._tasks.supervise("repeated presence", self._repeat, every=LOOKED_AT)

    async def close(self) -> None:
        await self._tasks.close()

    # -- what users do --

    async def type(self, room_id: str, user: str, *, typing: bool, lasts_ms: int) -> None:
        self._news.type_here(room_id, user, typing=typing, lasts_ms=lasts_ms)
        if not typing or user not in self._news.typing_in(room_id):
            return
        told, now = self._typing_told.setdefault(room_id, {}), self._now_ms()
        if user not in told or now - told[user] >= TYPING_TOLD_AGAIN_MS:
            told[user] = now
            await self._tell_typing(room_id, user, typing=True)

    def be(self, user: PresenceOfUser) -> None:
        if user == self._presence.get(user.user_id):
            return
        self._presence[user.user_id] = user
        self._news.be_present(user)
        self._changed.add(user.user_id)
        self._something.set()

    def meet(self, user: str) -> None:
        """The user has come into another room, where nobody knows yet whether the user is there."""
        if self._presence.get(user) is not None:
            self._changed.add(user)
            self._something.set()

    async def read(self, receipt: Receipt) -> None:
        """Committed when it returns."""
        key = receipt.room_id, receipt.user_id, receipt.thread_id
        known = self._read.get(key)
        if known is not None and known.event_id == receipt.event_id:
            return
        row = ReceiptRow(
            receipt.room_id, receipt.user_id, receipt.thread_id or "", receipt.event_id, receipt.ts
        )
        async with self._database.transaction() as connection:
            await write_receipts(connection, [row])
        self._read[key] = receipt
        self._news.tell(receipt)
        self._unsent[key] = receipt
        self._something.set()

    async def send(self, room_id: str, edu_type: str, content: Mapping[str, Any], name: str) -> None:
        """An EDU of a type of one's own."""
        if edu_type.startswith("m."):
            raise MatrixError("M_INVALID_PARAM", "EDUs of the specification are not sent by hand.", 400)
        try:
            size = len(encode(dict(content)))
        except NotCanonical as problem:
            raise MatrixError("M_BAD_JSON", f"The EDU cannot be written: {problem}.", 400) from None
        if size > MAX_OWN_EDU_BYTES:
            raise MatrixError("M_TOO_LARGE", f"An EDU has at most {MAX_OWN_EDU_BYTES} bytes.", 413)
        edu = Outgoing(edu_type, content, f"{edu_type} {room_id} {name}", EDU_LIVES_MS)
        self._outbox.pass_on(await self._rooms.servers_in_room(room_id), edu)

    # -- to other servers --

    def _typing_changed(self, said: Ephemeral) -> None:
        """Who has stopped, or has not typed on, is not typing elsewhere either."""
        assert isinstance(said, TypingNow), "what is told under m.typing"
        told = self._typing_told.get(said.room_id, {})
        for user in told.keys() - said.user_ids:
            del told[user]
            self._tasks.spawn("typing", self._tell_typing(said.room_id, user, typing=False))
        if not told:
            self._typing_told.pop(said.room_id, None)

    async def _tell_typing(self, room_id: str, user: str, *, typing: bool) -> None:
        servers = await self._rooms.servers_in_room(room_id)
        self._outbox.pass_on(servers, making.typing(Typing(room_id, user, typing)))

    async def _send(self) -> None:
        """What cannot be sent is not tried again: the next one is as good, and presence is repeated."""
        await self._something.wait()
        await asyncio.sleep(GATHERED)
        self._something.clear()
        await self._send_receipts()
        await self._send_presence()

    async def _send_receipts(self) -> None:
        receipts, self._unsent = self._unsent, {}
        if not receipts:
            return
        servers = await self._rooms.servers_in_rooms({room_id for room_id, _, _ in receipts})
        for receipt in receipts.values():
            self._outbox.pass_on(servers.get(receipt.room_id, frozenset()), making.receipt(receipt))

    async def _send_presence(self) -> None:
        """To every server that somebody is on whom the user meets."""
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
            self._outbox.pass_on(to, making.presence(user))
            if user.presence == "offline":
                self._presence_told.pop(user_id, None)
            else:
                self._presence_told[user_id] = now

    async def _repeat(self) -> None:
        self.repeat()

    def repeat(self) -> None:
        """Say again of those who are still there that they are."""
        due = self._now_ms() - PRESENCE_TOLD_AGAIN_MS
        stale = {user for user, told in self._presence_told.items() if told <= due}
        if stale:
            self._changed |= stale
            self._something.set()
