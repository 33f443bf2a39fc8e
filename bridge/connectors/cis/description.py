"""The description of the CIS connector: the federation of agents with other nodes."""

from typing import Final

from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.protocol.rooms import BroadcastRoom, room_id, wrong_namespace
from bridge.connectors.cis.settings import ACTIONS, HEALTH_PATH, LIVE_TYPE, NAME
from bridge.connectors.description import Description
from bridge.peers.peer import Peer
from federation.matrix.identifiers import MAX_BYTES, has_valid_length
from storage.errors import LocalError


def wrong_peer(peer: Peer) -> LocalError | None:
    """Return why a peer cannot be added: the id of one of its rooms would be too long or not allowed."""
    if not has_valid_length(room_id(BroadcastRoom(peer.node_id))):
        return LocalError(
            f"The id of the peer's broadcast room would be longer than {MAX_BYTES} bytes.",
            "The peer needs a shorter server name.",
        )
    for namespace in peer.namespaces:
        reason = wrong_namespace(namespace, peer.node_id)
        if reason is not None:
            return LocalError(reason, "Choose another namespace.")
    return None


CIS: Final = Description(
    name=NAME,
    module="bridge.connectors.cis.service.connector",
    wrong_peer=wrong_peer,
    health=HEALTH_PATH,
    notices=(ACTIONS,),
    metrics=CisMetrics,
    live={LIVE_TYPE: "bridge.connectors.cis.live"},
)
