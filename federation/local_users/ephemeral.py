"""Typing, presence, receipts, to-device messages and custom EDUs."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from federation.local_users.operations import Operations
from federation.matrix.canonical_json import decode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_event_id
from federation.transactions.edu_dispatcher import DeviceMessage, Listener
from federation.transactions.edus import MAX_STATUS_BYTES, PresenceState, Receipt, UserPresence
from storage.database import Connection
from storage.federation.edus import delete_messages, fetch_messages, fetch_receipts

MAX_TYPING_MS: Final = 120_000
_STATES: Final = frozenset({"online", "unavailable", "offline"})


class EphemeralOperations(Operations):
    async def set_typing(self, room_id: str, user: str, *, typing: bool, lasts_ms: int = 30_000) -> None:
        await self._require_joined(room_id, user)
        timeout_ms = max(1, min(lasts_ms, MAX_TYPING_MS))
        await self._services.ephemeral.set_typing(room_id, user, typing=typing, timeout_ms=timeout_ms)

    async def set_presence(self, user: str, presence: PresenceState, *, status: str | None = None) -> None:
        self._require_local_user(user)
        if presence not in _STATES:
            raise MatrixError("M_INVALID_PARAM", "The presence must be online, unavailable or offline.", 400)
        if status is not None and ("\0" in status or len(status.encode("utf-8", "replace")) > MAX_STATUS_BYTES):
            raise MatrixError(
                "M_INVALID_PARAM", f"A status must have at most {MAX_STATUS_BYTES} bytes and no NUL.", 400
            )
        is_active = presence == "online"
        self._services.ephemeral.set_presence(UserPresence(user, presence, 0 if is_active else None, is_active, status))

    async def mark_read(self, room_id: str, user: str, event_id: str, *, thread_id: str | None = None) -> None:
        await self._require_joined(room_id, user)
        event = (await self._services.graph.events([event_id])).get(event_id)
        if event is None or event.room_id != room_id:
            raise MatrixError("M_NOT_FOUND", f"There is no event {event_id[:255]} in this room.", 404)
        if thread_id is not None and thread_id != "main" and not is_event_id(thread_id):
            raise MatrixError("M_INVALID_PARAM", "A thread id must be an event id or main.", 400)
        receipt = Receipt(room_id, user, event_id, self._services.now_ms(), thread_id)
        await self._services.ephemeral.add_receipt(receipt)

    def typing(self, room_id: str) -> Collection[str]:
        return self._services.edus.typing_users(room_id)

    def presence(self, user: str) -> UserPresence | None:
        return self._services.edus.presence_of(user)

    async def receipts(self, room_id: str) -> list[Receipt]:
        if "\0" in room_id:
            return []
        async with self._services.database.transaction(readonly=True) as connection:
            rows = await fetch_receipts(connection, room_id)
        return [Receipt(row.room_id, row.user_id, row.event_id, row.ts, row.thread_id or None) for row in rows]

    def listen(self, edu_type: str, listener: Listener) -> Callable[[], None]:
        return self._services.edus.listen(edu_type, listener)

    async def send_edu(self, room_id: str, edu_type: str, content: Mapping[str, Any], *, name: str = "") -> None:
        await self._services.ephemeral.send_edu(room_id, edu_type, content, name)

    async def device_messages(self, user: str, *, limit: int = 100) -> list[DeviceMessage]:
        self._require_local_user(user)
        async with self._services.database.transaction(readonly=True) as connection:
            rows = await fetch_messages(connection, user, limit)
        return [
            DeviceMessage(row.position, user, row.device_id, row.sender, row.type, decode(row.content)) for row in rows
        ]

    async def forget_device_messages(self, connection: Connection, user: str, positions: Collection[int]) -> None:
        self._require_local_user(user)
        await delete_messages(connection, user, positions)

    async def _require_joined(self, room_id: str, user: str) -> None:
        self._require_local_user(user)
        await self._room(room_id)
        if await self._membership_in(room_id, user) != "join":
            raise MatrixError("M_FORBIDDEN", "The user is not joined to this room.", 403)
