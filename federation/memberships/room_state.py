"""Loads the part of a room's state that decisions about memberships need."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federation.auth_rules.auth_event_selection import JOIN_RULES, POWER_LEVELS
from federation.events import CREATE, Pdu, StateKey
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.memberships.restricted_joins import Memberships, allowed_rooms
from federation.rooms.engine import RoomGraph
from federation.rooms.server_acl import ACL


@dataclass(frozen=True, slots=True)
class PartialState:
    """Entries of the current state of a room."""

    version: RoomVersion
    events: Mapping[StateKey, Pdu]


class MembershipStateReader:
    """Reads the state of rooms that this server is in."""

    def __init__(self, server_name: str, rooms: RoomGraph) -> None:
        self._server_name = server_name
        self._rooms = rooms

    async def is_server_joined(self, room_id: str) -> bool:
        """Whether a local user is joined to the room, so that this server knows its state."""
        return await self._rooms.is_server_in_room(room_id, self._server_name)

    async def version(self, room_id: str) -> RoomVersion:
        """The room's version. MatrixError 404 if this server is not in the room."""
        view = await self._rooms.room(room_id) if await self.is_server_joined(room_id) else None
        if view is None:
            raise MatrixError("M_NOT_FOUND", "This server is not in that room.", 404)
        return view.version

    async def of(self, room_id: str, keys: Iterable[StateKey] = ()) -> PartialState:
        """The create event and the server ACL, which every endpoint needs, and the given entries."""
        version = await self.version(room_id)
        return PartialState(version, await self._rooms.current_events(room_id, [CREATE, ACL, *keys]))

    async def for_join(self, room_id: str, user: str) -> PartialState:
        """The entries that `restricted_joins.find_join_authoriser` needs."""
        part = await self.of(room_id, [JOIN_RULES, POWER_LEVELS, ("m.room.member", user)])
        if not allowed_rooms(part.events, part.version):
            return part
        local_members = [
            key
            for key in await self._rooms.current_state(room_id)
            if key[0] == "m.room.member" and domain(key[1]) == self._server_name
        ]
        members = await self._rooms.current_events(room_id, local_members)
        return PartialState(part.version, {**members, **part.events})

    async def memberships_elsewhere(self, user: str, part: PartialState) -> Memberships:
        """The user's memberships in those allowed rooms that this server is in."""
        key = ("m.room.member", user)
        found: dict[str, object] = {}
        for room_id in allowed_rooms(part.events, part.version):
            if await self.is_server_joined(room_id):
                member = (await self._rooms.current_events(room_id, [key])).get(key)
                found[room_id] = None if member is None else member.membership
        return found
