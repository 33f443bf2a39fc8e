"""Makes the rooms of this node, and keeps their state as the configuration has it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.connectors.cis.protocol.rooms import ROOM_VERSION, AgentRoom, BroadcastRoom, room_id
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.networks import host_of
from federation.rooms.creation import CreateRoomRequest

OWNERS_LEVEL: Final = 100


def room_request(room: AgentRoom, settings: CisSettings) -> CreateRoomRequest:
    """Asked for again, it is the same room."""
    name = room.name.partition(":")[0]
    is_public = settings.join_rule == "public"
    return CreateRoomRequest(
        creator=settings.node_user,
        version=ROOM_VERSION,
        preset="public_chat" if is_public else "private_chat",
        name=_title(room),
        topic=_topic(room),
        alias=name,
        room_id=name,
        history_visibility="shared",
        federate=settings.federate,
        power_levels={
            # Everybody may say something. The state, in which it stands which agents there are, is the
            # owner's: otherwise anybody could overwrite it.
            "events_default": 0,
            "state_default": OWNERS_LEVEL,
            # Nodes bring their agents along.
            "invite": 0,
        },
        key=f"cis {name}",
    )


def server_acl(room: AgentRoom, settings: CisSettings) -> Mapping[str, Any]:
    """Whom the room is closed to: everybody, or known nodes that are not trusted or may not use its
    namespace. A node on our own host, or on that of a node that may use it, cannot be told apart by it: "port
    numbers are not considered"."""
    own = host_of(settings.node_id)
    if not settings.federate:
        return {"allow": [own], "deny": [], "allow_ip_literals": True}
    refused: set[str] = set()
    let_in = {own}
    for access in settings.peers.values():
        may_use = access.peer.trusted and settings.may_use(access.peer, room)
        (let_in if may_use else refused).add(host_of(access.peer.node_id))
    return {"allow": ["*"], "deny": sorted(refused - let_in), "allow_ip_literals": True}


def _title(room: AgentRoom) -> str:
    if isinstance(room, BroadcastRoom):
        return f"Broadcasts of {room.node_id}"
    return f"Agents of {room.node_id}: {room.namespace}"


def _topic(room: AgentRoom) -> str:
    if isinstance(room, BroadcastRoom):
        return f"What {room.node_id} says to all nodes."
    return f"What agents of {room.node_id} are asked and told. Programs speak here."


class OwnRooms:
    """`is_spoken_with`: whether this node federates with a server, whatever for."""

    def __init__(
        self,
        side: MatrixBackend,
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
        made = await self._side.create_room(room_request(room, self._settings))
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
