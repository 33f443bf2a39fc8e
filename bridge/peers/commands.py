"""`palaver peers add`, `remove`, `trust` and `list`: the operator's commands for agent peers of a running
node."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bridge.control.server.arguments import Arguments
from bridge.control.server.peers import peers_list
from bridge.control.socket import Command
from bridge.peers.authority import MAX_BYTES, read_authority
from bridge.peers.peer import PeerProfile
from bridge.peers.peers import KnownPeer, read_peer
from bridge.peers.service import AgentPeers
from federation.homeserver import Homeserver
from storage.errors import LocalError

MAX_TEXTS: Final = 1_000
"""Namespaces or networks per command; the actual limits are lower."""
FROM_FILE: Final = "configuration"
ADDED: Final = "added"


def commands(peers: AgentPeers, homeserver: Homeserver | None) -> Mapping[str, Command]:
    """By control socket command. `peers-list` replaces the command that only lists servers. Without a
    homeserver the node is attached to one, and has only agent peers."""
    return {
        "peers-add": partial(add, peers, homeserver),
        "peers-remove": partial(remove, peers),
        "peers-trust": partial(trust, peers, homeserver),
        "peers-list": partial(list_peers, peers, homeserver),
    }


async def add(peers: AgentPeers, homeserver: Homeserver | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Omitted fields get the configuration's defaults, also for a peer that exists."""
    arguments = Arguments(given)
    fields: dict[str, Any] = {
        "node_id": arguments.text("node_id"),
        "trusted": not arguments.flag("untrusted"),
        "require_signature": arguments.flag("require_signature"),
    }
    for name in ("url", "profile", "signing_key"):
        value = arguments.optional_text(name)
        if value is not None:
            fields[name] = value
    for name in ("namespaces", "networks"):
        values = arguments.texts(name, MAX_TEXTS)
        if values:
            fields[name] = values
    peer, authority = read_peer(fields), _authority(given)
    if isinstance(peer, LocalError):
        raise peer
    changed = await peers.add(peer, authority)
    return {"changed": changed, **_outcome(peers, homeserver, peer.node_id)}


async def remove(peers: AgentPeers, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`peer` is the result: None, or the configured peer."""
    node_id = Arguments(given).text("node_id")
    changed = await peers.remove(node_id)
    left = peers.snapshot.find(node_id)
    return {"node_id": node_id, "changed": changed, "peer": None if left is None else _peer_json(left)}


async def trust(peers: AgentPeers, homeserver: Homeserver | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = Arguments(given)
    node_id = arguments.text("node_id")
    changed = await peers.trust(node_id, trusted=not arguments.flag("no"))
    return {"changed": changed, **_outcome(peers, homeserver, node_id)}


async def list_peers(peers: AgentPeers, homeserver: Homeserver | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`agent_peers` are the agent peers that match the search."""
    words = (Arguments(given).optional_text("search") or "").casefold()
    found = sorted((one for one in peers.snapshot if words in one.node_id.casefold()), key=lambda one: one.node_id)
    servers = {"peers": [], "total": 0} if homeserver is None else await peers_list(homeserver, given)
    return {**servers, "agent_peers": [_peer_json(one) for one in found]}


def _outcome(peers: AgentPeers, homeserver: Homeserver | None, node_id: str) -> Mapping[str, Any]:
    """`is_refused`: the federation policy refuses the server although it is an agent peer."""
    known = peers.snapshot.find(node_id)
    if known is None:
        raise LocalError(
            f"{node_id} was removed at the same time by another command.",
            "`palaver peers list` shows the current peers.",
        )
    is_homeserver = known.settings.trusted and known.settings.profile is PeerProfile.MATRIX
    is_refused = is_homeserver and homeserver is not None and not homeserver.settings.policy.admits(known.node_id)
    return {**_peer_json(known), "is_refused": is_refused}


def _peer_json(known: KnownPeer) -> Mapping[str, Any]:
    """Without keys and certificates; it only tells whether there are any."""
    fields = known.settings
    is_published = fields.profile is PeerProfile.CIS_1_1
    return {
        "node_id": fields.node_id,
        "url": fields.url,
        "trusted": fields.trusted,
        "profile": fields.profile.value,
        "from": ADDED if known.in_file is None else FROM_FILE,
        "overridden": known.is_overridden,
        "namespaces": fields.namespaces,
        "networks": [str(network) for network in fields.sources] if is_published else [],
        "has_authority": known.authority is not None,
        "has_signing_key": fields.signing_key is not None,
        "require_signature": fields.require_signature,
    }


def _authority(given: Mapping[str, Any]) -> str | None:
    value = given.get("authority")
    if value is None:
        return None
    if not isinstance(value, str):
        raise LocalError("The authority is not a string.", f"Send it as PEM of at most {MAX_BYTES} bytes.")
    read = read_authority(value)
    if isinstance(read, LocalError):
        raise read
    return read
