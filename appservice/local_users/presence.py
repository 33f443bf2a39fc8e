"""Typing, presence, receipts and to-device messages."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from appservice.local_users.ephemeral_sender import EphemeralSender
from appservice.local_users.lookups import RoomViewing, is_requestable
from appservice.local_users.parts import Parts, unknown_room
from federation.matrix.canonical_json import decode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_event_id, is_room_id
from federation.transactions.edu_dispatcher import DeviceMessage, Listener
from federation.transactions.edus import MAX_STATUS_BYTES, PresenceState, Receipt, UserPresence
from storage.database import Connection
from storage.federation.edus import ReceiptRow, delete_messages, fetch_messages, fetch_receipts

MAX_TYPING_MS: Final = 120_000
_STATES: Final = frozenset({"online", "unavailable", "offline"})


class Presence(RoomViewing):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._ephemeral = EphemeralSender(
            parts.client,
            parts.database,
            parts.ephemeral,
            ensure_user=parts.ghosts.ensure_user,
            now_ms=parts.now_ms,
            report=parts.report,
        )

    async def set_typing(self, room_id: str, user: str, *, typing: bool, lasts_ms: int = 30_000) -> None:
        await self._require_joined(room_id, user)
        lasts = max(1, min(lasts_ms, MAX_TYPING_MS))
        self._ephemeral.set_typing(room_id, user, typing=typing, lasts_ms=lasts)

    async def set_presence(self, user: str, presence: PresenceState, *, status: str | None = None) -> None:
        self._require_ghost(user)
        if presence not in _STATES:
            raise MatrixError("M_INVALID_PARAM", "The presence has to be online, unavailable or offline.", 400)
        if status is not None and ("\0" in status or len(status.encode("utf-8", "replace")) > MAX_STATUS_BYTES):
            raise MatrixError("M_INVALID_PARAM", f"A status has at most {MAX_STATUS_BYTES} bytes.", 400)
        is_active = presence == "online"
        self._ephemeral.set_presence(UserPresence(user, presence, 0 if is_active else None, is_active, status))

    async def mark_read(self, room_id: str, user: str, event_id: str, *, thread_id: str | None = None) -> None:
        await self._require_joined(room_id, user)
        if not await self._knows_event_in(room_id, user, event_id):
            raise MatrixError("M_NOT_FOUND", "There is no such event in that room.", 404)
        if thread_id is not None and thread_id != "main" and not is_event_id(thread_id):
            raise MatrixError("M_INVALID_PARAM", "A thread id is an event id or 'main'.", 400)
        receipt = Receipt(room_id, user, event_id, self._parts.now_ms(), thread_id)
        await self._ephemeral.mark_read(receipt)

    def typing(self, room_id: str) -> Collection[str]:
        return self._parts.ephemeral.typing_users(room_id)

    def presence(self, user: str) -> UserPresence | None:
        return self._parts.ephemeral.presence_of(user)

    async def receipts(self, room_id: str) -> list[Receipt]:
        if "\0" in room_id:
            return []
        async with self._parts.database.transaction(readonly=True) as connection:
            stored = await fetch_receipts(connection, room_id)
        newest: dict[tuple[str, str], ReceiptRow] = {}
        for row in (*stored, *self._ephemeral.unwritten(room_id)):
            known = newest.get((row.user_id, row.thread_id))
            if known is None or known.ts <= row.ts:
                newest[row.user_id, row.thread_id] = row
        return [
            Receipt(row.room_id, row.user_id, row.event_id, row.ts, row.thread_id or None)
            for _, row in sorted(newest.items())
        ]

    def listen(self, edu_type: str, listener: Listener) -> Callable[[], None]:
        return self._parts.ephemeral.listen(edu_type, listener)

    async def send_edu(self, room_id: str, edu_type: str, content: Mapping[str, Any], *, name: str = "") -> None:
        raise MatrixError("M_UNRECOGNIZED", "A homeserver forwards no EDUs for its application services.", 400)

    async def device_messages(self, user: str, *, limit: int = 100) -> list[DeviceMessage]:
        self._require_ghost(user)
        async with self._parts.database.transaction(readonly=True) as connection:
            rows = await fetch_messages(connection, user, limit)
        return [
            DeviceMessage(row.position, user, row.device_id, row.sender, row.type, decode(row.content)) for row in rows
        ]

    async def forget_device_messages(self, connection: Connection, user: str, positions: Collection[int]) -> None:
        self._require_ghost(user)
        await delete_messages(connection, user, positions)

    async def _knows_event_in(self, room_id: str, user: str, event_id: str) -> bool:
        """A homeserver accepts a receipt for any event id."""
        if not is_requestable(event_id):
            return False
        known = await self._parts.rooms.event(event_id)
        if known is not None:
            return known.room_id == room_id
        viewer = await self._viewer(room_id, user)
        return viewer is not None and await self._fetch_event(room_id, event_id, viewer) is not None

    async def _require_joined(self, room_id: str, user: str) -> None:
        self._require_ghost(user)
        if not is_room_id(room_id):
            raise unknown_room()
        if await self._parts.rooms.membership(room_id, user) != "join":
            await self._resident(room_id)
            raise MatrixError("M_FORBIDDEN", "The user is not in that room.", 403)
