"""The EDUs of other servers' transactions: read, held against the rooms they speak of, kept or passed on."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from federation.rooms.engine import RoomGraph
from federation.rooms.server_acl import ServerAcl
from federation.transactions.edu_reading import Malformed, read, rooms_of, within_acls
from federation.transactions.edu_values import (
    DeviceListUpdate,
    Edu,
    Other,
    Presence,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
)
from federation.transactions.ephemeral import EphemeralNews
from storage.database import Database
from storage.federation.edus import ReceiptRow, insert_to_device, prune_to_device, write_receipts

REPEATS: Final = timedelta(days=7)
"""For how long a repeated message to devices is recognised. Servers repeat a transaction for less."""


class IncomingEdus:
    def __init__(self, database: Database, rooms: RoomGraph, listener: EphemeralNews) -> None:
        self._database = database
        self._rooms = rooms
        self._listener = listener

    async def receive(self, origin: str, edus: Sequence[Any]) -> None:
        """Take in the EDUs of a transaction. What is wrong with one does not harm the others.

        Raises only when what must not be lost could not be written: the transaction has to be answered with
        an error then, so that it comes again.
        """
        # Only the last word of each user counts, but there is nothing to be gained by looking for it.
        for edu in edus:
            read_ = read(edu, origin)
            if isinstance(read_, Malformed):
                continue
            left = within_acls(read_, origin, await self._acls(rooms_of(read_)))
            if left is not None:
                await self._take_in(origin, left)

    async def prune(self) -> int:
        """Forget the messages to devices that nobody will repeat any more; how many they were."""
        async with self._database.transaction() as connection:
            return await prune_to_device(connection, REPEATS)

    async def _acls(self, room_ids: Iterable[str]) -> Mapping[str, ServerAcl]:
        """The ACLs of those of the rooms that this server knows."""
        acls = {}
        for room_id in room_ids:
            acl = await self._rooms.acl(room_id)
            if acl is not None:
                acls[room_id] = acl
        return acls

    async def _take_in(self, origin: str, edu: Edu) -> None:
        match edu:
            case Typing():
                if await self._is_joined(edu.room_id, edu.user_id):
                    self._listener.typing(edu)
            case Receipts():
                rows = [
                    ReceiptRow(one.room_id, one.user_id, one.thread_id or "", one.event_id, one.ts)
                    for one in edu.receipts
                ]
                async with self._database.transaction() as connection:
                    await write_receipts(connection, rows)
                self._listener.receipts(edu)
            case Presence():
                self._listener.presence(edu)
            case DeviceListUpdate() | SigningKeyUpdate():
                self._listener.device_list(edu)
            case ToDevice():
                async with self._database.transaction() as connection:
                    if await insert_to_device(connection, origin, edu.message_id):
                        await self._listener.to_device(connection, edu)
            case Other():
                self._listener.other(origin, edu)

    async def _is_joined(self, room_id: str, user_id: str) -> bool:
        key = ("m.room.member", user_id)
        member = (await self._rooms.current_events(room_id, [key])).get(key)
        return member is not None and member.membership == "join"
