"""Handles the EDUs of received transactions: parses them, checks them against their rooms, stores them or
notifies listeners."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from federation.rooms.engine import RoomGraph
from federation.rooms.server_acl import ServerAcl
from federation.transactions.edu_dispatcher import EduDispatcher
from federation.transactions.edu_parsing import MalformedEdu, apply_server_acls, parse_edu, rooms_of
from federation.transactions.edus import (
    CustomEdu,
    DeviceListUpdate,
    Edu,
    Presence,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
)
from storage.database import Database
from storage.federation.edus import ReceiptRow, insert_to_device, prune_to_device, write_receipts

TO_DEVICE_RETENTION: Final = timedelta(days=7)
"""How long a repeated to-device message is recognised. Servers repeat a transaction for less."""


class IncomingEdus:
    def __init__(self, database: Database, rooms: RoomGraph, listener: EduDispatcher) -> None:
        self._database = database
        self._rooms = rooms
        self._listener = listener

    async def receive(self, origin: str, edus: Sequence[Any]) -> None:
        """Handle the EDUs of a transaction. An invalid one is ignored and does not affect the others.

        Raises only if an EDU that must not be lost could not be stored. The transaction then has to be
        answered with an error, so that the sender repeats it.
        """
        # Of several updates of one user only the last matters, but filtering the others out would save
        # nothing.
        for edu in edus:
            parsed = parse_edu(edu, origin)
            if isinstance(parsed, MalformedEdu):
                continue
            left = apply_server_acls(parsed, origin, await self._acls(rooms_of(parsed)))
            if left is not None:
                await self._handle(origin, left)

    async def prune(self) -> int:
        """Delete the ids of to-device messages older than `TO_DEVICE_RETENTION`; return how many were
        deleted."""
        async with self._database.transaction() as connection:
            return await prune_to_device(connection, TO_DEVICE_RETENTION)

    async def _acls(self, room_ids: Iterable[str]) -> Mapping[str, ServerAcl]:
        """Return the server ACLs of those rooms that this server knows."""
        acls = {}
        for room_id in room_ids:
            acl = await self._rooms.acl(room_id)
            if acl is not None:
                acls[room_id] = acl
        return acls

    async def _handle(self, origin: str, edu: Edu) -> None:
        match edu:
            case Typing():
                if await self._is_joined(edu.room_id, edu.user_id):
                    self._listener.handle_typing(edu)
            case Receipts():
                rows = [
                    ReceiptRow(one.room_id, one.user_id, one.thread_id or "", one.event_id, one.ts)
                    for one in edu.receipts
                ]
                async with self._database.transaction() as connection:
                    await write_receipts(connection, rows)
                self._listener.handle_receipts(edu)
            case Presence():
                self._listener.handle_presence(edu)
            case DeviceListUpdate() | SigningKeyUpdate():
                self._listener.handle_device_update(edu)
            case ToDevice():
                async with self._database.transaction() as connection:
                    if await insert_to_device(connection, origin, edu.message_id):
                        await self._listener.handle_to_device(connection, edu)
            case CustomEdu():
                self._listener.handle_custom(origin, edu)

    async def _is_joined(self, room_id: str, user_id: str) -> bool:
        key = ("m.room.member", user_id)
        member = (await self._rooms.current_events(room_id, [key])).get(key)
        return member is not None and member.membership == "join"
