"""The rooms of a node as they are made, and who may come in."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.connectors.cis.rooms import ROOM_VERSION, AgentRoom, BroadcastRoom
from bridge.connectors.cis.settings import CisSettings
from federation.admission import host_of
from federation.room_request import RoomRequest

OWNERS_LEVEL: Final = 100


def request(room: AgentRoom, settings: CisSettings) -> RoomRequest:
    """Asked for again, it is the same room."""
    name = room.name.partition(":")[0]
    is_public = settings.join_rule == "public"
    return RoomRequest(
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
