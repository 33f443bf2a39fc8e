"""What kind of room each is, remembered until somebody comes or goes."""

from typing import Final

from bridge.matrix_side import MatrixSide
from bridge.people.message import MEMBER
from bridge.people.place import AGENTS_ROOM, Members, Place, members_of, place_of
from bridge.people.service.agents_rooms import AgentsRooms
from bridge.people.service.identities import Identities
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from federation.room_event import RoomEvent

MOST_REMEMBERED: Final = 2_000


class RoomMemory:
    """It is told of each event in the order in which they are read."""

    def __init__(self, side: MatrixSide, identities: Identities, rooms: AgentsRooms) -> None:
        self._side = side
        self._identities = identities
        self._rooms = rooms
        self._members: BoundedCache[str, Members] = BoundedCache(MOST_REMEMBERED)

    def heard(self, event: RoomEvent) -> None:
        known = self._members.get(event.room_id)
        if known is None or event.type != MEMBER:
            return
        # Of a large room only our own are remembered.
        if known.all is not None or self._identities.is_ours(event.state_key or ""):
            self._members.forget(event.room_id)

    async def place(self, room_id: str) -> Place | None:
        """None for a room that this node is not in any more."""
        try:
            members = self._members.get(room_id) or await self._look(room_id)
            return await self._place(room_id, members)
        except MatrixError:
            return None

    async def look(self, room_id: str) -> Place | None:
        """As it is now, for who does not read in order."""
        try:
            return await self._place(room_id, await self._members_now(room_id))
        except MatrixError:
            return None

    async def _place(self, room_id: str, members: Members) -> Place:
        namespace = self._rooms.namespace(room_id)
        said = None if namespace is not None else await self._side.state_event(room_id, AGENTS_ROOM)
        return place_of(
            room_id,
            members,
            namespace=namespace,
            room_of_agents=None if said is None else said.content,
            node=self._identities.names.node_id,
            node_user=self._identities.names.node_user,
            agent_of=self._identities.agent_of,
        )

    async def _look(self, room_id: str) -> Members:
        members = await self._members_now(room_id)
        self._members.put(room_id, members)
        return members

    async def _members_now(self, room_id: str) -> Members:
        # Who is invited counts: a chat of two begins before the other one has come.
        found = await self._side.members(room_id, ("join", "invite"))
        joined = {member.user_id for member in found if member.membership == "join"}
        members = members_of({member.user_id for member in found}, self._identities.is_ours)
        return Members(members.all, members.ours & joined)
