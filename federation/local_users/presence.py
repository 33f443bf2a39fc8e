"""Typing, presence, receipts, to-device messages and custom EDUs."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from federation.local_users.parts import HasParts
from federation.matrix.canonical_json import decode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_event_id
from federation.transactions.edu_dispatcher import DeviceMessage, Listener, PresenceState
from federation.transactions.edus import MAX_STATUS_BYTES, Receipt, UserPresence
from storage.database import Connection
from storage.federation.edus import delete_messages, fetch_messages, fetch_receipts

LONGEST_TYPING_MS: Final = 120_000
_STATES: Final = frozenset({"online", "unavailable", "offline"})


class Presences(HasParts):
    async def set_typing(self, room_id: str, user: str, *, typing: bool, lasts_ms: int = 30_000) -> None:
        await self._refuse_outsiders(room_id, user)
        lasts = max(1, min(lasts_ms, LONGEST_TYPING_MS))
        await self._parts.own.type(room_id, user, typing=typing, lasts_ms=lasts)

    async def set_presence(self, user: str, presence: PresenceState, *, status: str | None = None) -> None:
        self._refuse_strangers(user)
        if presence not in _STATES:
            raise MatrixError("M_INVALID_PARAM", "The presence must be online, unavailable or offline.", 400)
        if status is not None and (
            "\0" in status or len(status.encode("utf-8", "replace")) > MAX_STATUS_BYTES
        ):
            raise MatrixError(
                "M_INVALID_PARAM", f"A status must have at most {MAX_STATUS_BYTES} bytes and no NUL.", 400
            )
        is_active = presence == "online"
        self._parts.own.be(UserPresence(user, presence, 0 if is_active else None, is_active, status))

    async def mark_read(
        self, room_id: str, user: str, event_id: str, *, thread_id: str | None = None
    ) -> None:
        await self._refuse_outsiders(room_id, user)
        event = (await self._parts.graph.events([event_id])).get(event_id)
        if event is None or event.room_id != room_id:
            raise MatrixError("M_NOT_FOUND", f"There is no event {event_id[:255]} in this room.", 404)
        if thread_id is not None and thread_id != "main" and not is_event_id(thread_id):
            raise MatrixError("M_INVALID_PARAM", "A thread id must be an event id or main.", 400)
        receipt = Receipt(room_id, user, event_id, self._parts.now_ms(), thread_id)
        await self._parts.own.read(receipt)

    def typing(self, room_id: str) -> Collection[str]:
        return self._parts.news.typing_users(room_id)

    def presence(self, user: str) -> UserPresence | None:
        return self._parts.news.presence_of(user)

    async def receipts(self, room_id: str) -> list[Receipt]:
        if "\0" in room_id:
            return []
        async with self._parts.database.transaction(readonly=True) as connection:
            rows = await fetch_receipts(connection, room_id)
        return [
            Receipt(row.room_id, row.user_id, row.event_id, row.ts, row.thread_id or None) for row in rows
        ]

    def listen(self, edu_type: str, listener: Listener) -> Callable[[], None]:
        return self._parts.news.listen(edu_type, listener)

    async def send_edu(
        self, room_id: str, edu_type: str, content: Mapping[str, Any], *, name: str = ""
    ) -> None:
        await self._parts.own.send(room_id, edu_type, content, name)

    async def device_messages(self, user: str, *, limit: int = 100) -> list[DeviceMessage]:
        self._refuse_strangers(user)
        async with self._parts.database.transaction(readonly=True) as connection:
            rows = await fetch_messages(connection, user, limit)
        return [
            DeviceMessage(row.position, user, row.device_id, row.sender, row.type, decode(row.content))
            for row in rows
        ]

    async def forget_device_messages(
        self, connection: Connection, user: str, positions: Collection[int]
    ) -> None:
        self._refuse_strangers(user)
        await delete_messages(connection, user, positions)

    async def _refuse_outsiders(self, room_id: str, user: str) -> None:
        self._refuse_strangers(user)
        await self._room(room_id)
        if await self._membership_in(room_id, user) != "join":
            raise MatrixError("M_FORBIDDEN", "The user is not joined to this room.", 403)
