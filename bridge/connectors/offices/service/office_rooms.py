"""The rooms of offices, as somebody asks for them by their names on the homeserver."""

from typing import Final

from bridge.connectors.offices.office_name import OfficeName, office_name
from bridge.connectors.offices.office_room import (
    alias,
    alias_localpart,
    is_hashed_alias,
    parse_alias_localpart,
    room_key,
)
from bridge.connectors.offices.service.recording import RoomParts
from federation.identifiers import domain, localpart
from federation.peer_limits import Buckets, Rate
from storage.created_rooms import fetch_created
from storage.office_rooms import list_offices

MADE: Final = Rate(1 / 60, 60)
"""Offices that one server has made by asking for them."""
MOST_SERVERS: Final = 1_000


class OfficeRooms:
    """`localpart` is what stands between the `#` and the colon of an alias."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._domain = parts.settings.names.domain
        self._made: Buckets[str] = Buckets(MOST_SERVERS)

    async def has(self, localpart: str) -> bool:
        return await self._found(localpart) is not None

    async def lead(self, localpart: str) -> bool:
        """Whether there is such an office. When it returns, its alias leads to its room. None is made: that
        is done when somebody joins it. Raises `MatrixError`."""
        found = await self._found(localpart)
        if found is None:
            return False
        office_id, room_id = found
        node_user = self._parts.settings.names.node_user
        await self._parts.side.create_alias(alias(office_id, self._domain), room_id, node_user)
        return True

    async def make(self, asked: str, asked_by: str, now: float) -> bool:
        """Whether another server has this alias made by asking for it: only if its members may be in offices
        of this node, and not without end."""
        name = localpart(asked)
        office_id = None if name is None else parse_alias_localpart(name)
        may = any(one == asked_by or domain(one) == asked_by for one in self._parts.nodes)
        if office_id is None or not may or office_name(office_id, ()) != OfficeName(office_id):
            return False
        if self._made.take(asked_by, MADE, now) is not None:
            return False
        await self._parts.room_of(office_id)
        return True

    async def _found(self, localpart: str) -> tuple[str, str] | None:
        """The office and its room."""
        node_user = self._parts.settings.names.node_user
        async with self._parts.database.transaction(readonly=True) as connection:
            said = parse_alias_localpart(localpart)
            known = await list_offices(connection) if is_hashed_alias(localpart) else [said]
            for office_id in known:
                if office_id is None or alias_localpart(office_id, self._domain) != localpart:
                    continue
                room_id = await fetch_created(connection, node_user, room_key(office_id))
                return None if room_id is None else (office_id, room_id)
        return None
