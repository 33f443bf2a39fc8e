"""Creates the rooms of this node, and keeps their state in line with the configuration."""

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

OWNER_LEVEL: Final = 100


def room_request(room: AgentRoom, settings: CisSettings) -> CreateRoomRequest:
    """Return the request that creates the room. Repeating it returns the same room."""
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
            # All members may send events. Only the owner may set state, which lists its agents: otherwise any
            # member could overwrite the list.
            "events_default": 0,
            "state_default": OWNER_LEVEL,
            # Nodes invite their agents.
            "invite": 0,
        },
        key=f"cis {name}",
    )


def server_acl(room: AgentRoom, settings: CisSettings) -> Mapping[str, Any]:
    """Return the room's `m.room.server_acl`. With `federate` off it excludes all other servers; otherwise the
    configured nodes that are not trusted or may not use the room's namespace. A node on the host of this
    node, or of a node that may use the room, cannot be excluded: "port numbers are not considered"."""
    own = host_of(settings.node_id)
    if not settings.federate:
        return {"allow": [own], "deny": [], "allow_ip_literals": True}
    denied: set[str] = set()
    allowed = {own}
    for access in settings.peers.values():
        may_use = access.peer.trusted and settings.may_use(access.peer, room)
        (allowed if may_use else denied).add(host_of(access.peer.node_id))
    return {"allow": ["*"], "deny": sorted(denied - allowed), "allow_ip_literals": True}


def _title(room: AgentRoom) -> str:
    if isinstance(room, BroadcastRoom):
        return f"Broadcasts of {room.node_id}"
    return f"Agents of {room.node_id}: {room.namespace}"


def _topic(room: AgentRoom) -> str:
    if isinstance(room, BroadcastRoom):
        return f"Events from {room.node_id} to all nodes. Used by programs."
    return f"Requests and messages to agents of {room.node_id}. Used by programs."


class OwnRooms:
    """`admits` returns whether this node federates with a server."""

    def __init__(
        self,
        backend: MatrixBackend,
        settings: CisSettings,
        observer: CisObserver,
        *,
        admits: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._observer = observer
        self._admits = admits

    async def create_all(self) -> None:
        """Create all rooms, or update those that exist. A failure is reported and does not affect the other
        rooms."""
        if not self._settings.has_rooms:
            return
        await self._backend.ensure_user(self._settings.node_user)
        for room in self._settings.own_rooms():
            try:
                await self._create(room)
            except MatrixError as error:
                self._observer.report_problem(f"Failed to create or update the room {room_id(room)}.", error)

    async def _create(self, room: AgentRoom) -> None:
        id_, owner = room_id(room), self._settings.node_user
        created = await self._backend.create_room(room_request(room, self._settings))
        if not created.is_new:
            await self._backend.join(id_, owner)
            rule = {"join_rule": self._settings.join_rule}
            await self._backend.set_state(id_, owner, "m.room.join_rules", rule)
            await self._check_federation(id_)
        await self._update_acl(room)

    async def peer_changed(self, node_id: str) -> None:
        """A peer was added, removed or changed: update which servers may be in the rooms."""
        if not self._settings.has_rooms:
            return
        for room in self._settings.own_rooms():
            try:
                await self._update_acl(room)
                await self._kick_former_peer(room, node_id)
            except MatrixError as error:
                self._observer.report_problem(f"Failed to update the room {room_id(room)}.", error)

    async def _update_acl(self, room: AgentRoom) -> None:
        id_, acl = room_id(room), server_acl(room, self._settings)
        if acl["deny"] or not self._settings.federate or await self._backend.server_acl(id_) is not None:
            await self._backend.set_server_acl(id_, self._settings.node_user, **acl)

    async def _kick_former_peer(self, room: AgentRoom, node_id: str) -> None:
        """Kick the users of a former peer from an invite-only room. If this node no longer federates with the
        server at all, no kick is sent: the server would not receive it, and it receives no events either."""
        is_peer = self._settings.access(node_id) is not None
        if is_peer or self._settings.join_rule != "invite" or not self._admits(node_id):
            return
        id_, owner = room_id(room), self._settings.node_user
        for member in await self._backend.members(id_, ("join", "invite")):
            if domain(member.user_id) == node_id:
                await self._backend.kick(id_, owner, member.user_id)

    async def _check_federation(self, id_: str) -> None:
        """Report a room that was created with `m.federate` false, which cannot be changed."""
        creation = await self._backend.state_event(id_, "m.room.create")
        if self._settings.federate and creation is not None and creation.content.get("m.federate", True) is not True:
            self._observer.report_problem(
                f"The room {id_} was created with federate = false, so other nodes can never join it."
                " Configure another namespace.",
                None,
            )
