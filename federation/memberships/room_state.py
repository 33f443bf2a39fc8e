"""As much of a room's state as deciding on memberships takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federation.auth_rules.auth_event_selection import JOIN_RULES, POWER_LEVELS
from federation.events import CREATE, Pdu, StateKey
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.memberships.restricted_joins import Memberships, rooms_that_admit
from federation.rooms.engine import RoomGraph
from federation.rooms.server_acl import ACL


@dataclass(frozen=True, slots=True)
class PartOfState:
    version: RoomVersion
    events: Mapping[StateKey, Pdu]


class MembershipState:
    def __init__(self, server_name: str, rooms: RoomGraph) -> None:
        self._server_name = server_name
        self._rooms = rooms

    async def is_here(self, room_id: str) -> bool:
        """Whether somebody of this server is in the room, so that its state is known."""
        return await self._rooms.is_server_in_room(room_id, self._server_name)

    async def version(self, room_id: str) -> RoomVersion:
        """404 unless this server is in the room."""
        view = await self._rooms.room(room_id) if await self.is_here(room_id) else None
        if view is None:
            raise MatrixError("M_NOT_FOUND", "This server is not in that room.", 404)
        return view.version

    async def of(self, room_id: str, keys: Iterable[StateKey] = ()) -> PartOfState:
        """What every endpoint looks at, and these entries."""
        version = await self.version(room_id)
        return PartOfState(version, await self._rooms.current_events(room_id, [CREATE, ACL, *keys]))

    async def of_join(self, room_id: str, user: str) -> PartOfState:
        """What `restricted_joins.authorise` reads."""
        part = await self.of(room_id, [JOIN_RULES, POWER_LEVELS, ("m.room.member", user)])
        if not rooms_that_admit(part.events, part.version):
            return part
        ours = [
            key
            for key in await self._rooms.current_state(room_id)
            if key[0] == "m.room.member" and domain(key[1]) == self._server_name
        ]
        members = await self._rooms.current_events(room_id, ours)
        return PartOfState(part.version, {**members, **part.events})

    async def memberships_elsewhere(self, user: str, part: PartOfState) -> Memberships:
        """The user's membership in those of the rooms of the conditions that this server is in."""
        key = ("m.room.member", user)
        found: dict[str, object] = {}
        for room_id in rooms_that_admit(part.events, part.version):
            if await self.is_here(room_id):
                member = (await self._rooms.current_events(room_id, [key])).get(key)
                found[room_id] = None if member is None else member.membership
        return found
