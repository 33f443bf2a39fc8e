"""Makes the rooms of this node, and keeps them as the configuration has them."""

from collections.abc import Callable

from bridge.connectors.cis.act import CisObserver
from bridge.connectors.cis.own_rooms import request, server_acl
from bridge.connectors.cis.rooms import AgentRoom, room_id
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix_side import MatrixSide
from federation.errors import MatrixError
from federation.identifiers import domain


class OwnRooms:
    """`is_spoken_with`: whether this node federates with a server, whatever for."""

    def __init__(
        self,
        side: MatrixSide,
        settings: CisSettings,
        observer: CisObserver,
        *,
        is_spoken_with: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._side = side
        self._settings = settings
        self._observer = observer
        self._is_spoken_with = is_spoken_with

    async def make(self) -> None:
        """All of them. What is so already is done; what does not succeed is told, and is no harm to the
        others."""
        if not self._settings.has_rooms:
            return
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
        await self._close(room)

    async def follow(self, node_id: str) -> None:
        """A peer has come, or gone, or is another one: who may be in the rooms."""
        if not self._settings.has_rooms:
            return
        for room in self._settings.own_rooms():
            try:
                await self._close(room)
                await self._show_out(room, node_id)
            except MatrixError as refused:
                self._observer.problem(f"The room {room_id(room)} is not as it should be.", refused)

    async def _close(self, room: AgentRoom) -> None:
        where, acl = room_id(room), server_acl(room, self._settings)
        if acl["deny"] or not self._settings.federate or await self._side.server_acl(where) is not None:
            await self._side.set_server_acl(where, self._settings.node_user, **acl)

    async def _show_out(self, room: AgentRoom, node_id: str) -> None:
        """By invite only, who is no peer any more is no longer in there. A server that is not spoken with at
        all would not learn that, and hears nothing all the same."""
        is_peer = self._settings.access(node_id) is not None
        if is_peer or self._settings.join_rule != "invite" or not self._is_spoken_with(node_id):
            return
        where, owner = room_id(room), self._settings.node_user
        for member in await self._side.members(where, ("join", "invite")):
            if domain(member.user_id) == node_id:
                await self._side.kick(where, owner, member.user_id)

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
