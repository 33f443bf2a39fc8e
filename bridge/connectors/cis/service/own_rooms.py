"""Makes the rooms of this node, and keeps them as the configuration has them."""

from bridge.connectors.cis.act import CisObserver
from bridge.connectors.cis.own_rooms import request, server_acl
from bridge.connectors.cis.rooms import AgentRoom, room_id
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix_side import MatrixSide
from federation.errors import MatrixError


class OwnRooms:
    def __init__(self, side: MatrixSide, settings: CisSettings, observer: CisObserver) -> None:
        self._side = side
        self._settings = settings
        self._observer = observer

    async def make(self) -> None:
        """All of them. What is so already is done; what does not succeed is told, and is no harm to the
        others."""
        await self._side.ensure_user(self._settings.node_user)
        for room in self._settings.own_rooms():
            try:
                await self._make(room)
            except MatrixError as refused:
                self._observer.problem(f"The room {room_id(room)} is not as it should be.", refused)

    async def _make(self, room: AgentRoom) -> None:
        where, owner = room_id(room), self._settings.node_user
        made = await self._side.create_room(request(room, self._settings))
        if not made.is_new:
            await self._side.join(where, owner)
            rule = {"join_rule": self._settings.join_rule}
            await self._side.set_state(where, owner, "m.room.join_rules", rule)
            await self._look_at_creation(where)
        acl = server_acl(room, self._settings)
        if acl["deny"] or not self._settings.federate or await self._side.server_acl(where) is not None:
            await self._side.set_server_acl(where, owner, **acl)

    async def _look_at_creation(self, where: str) -> None:
        """ "m.federate" cannot be taken back."""
        creation = await self._side.state_event(where, "m.room.create")
        if (
            self._settings.federate
            and creation is not None
            and creation.content.get("m.federate", True) is not True
        ):
            self._observer.problem(
                f"The room {where} was made with federate = false, and stays closed to other nodes: name"
                " another namespace.",
                None,
            )
