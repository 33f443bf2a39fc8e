"""`palaver peers add`, `remove`, `trust` and `list`: what an operator does with the peers of the federation
of agents, while the node runs."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bridge.control.server.arguments import Arguments
from bridge.control.server.peers import peers_list
from bridge.control.socket import Command
from bridge.peers.authority import MOST_BYTES, read_authority
from bridge.peers.peer import PeerProfile
from bridge.peers.peers import KnownPeer, read_peer
from bridge.peers.service import AgentPeers
from federation.homeserver import Homeserver
from storage.errors import LocalError

MOST_TEXTS: Final = 1_000
"""Namespaces or networks, of which fewer are taken."""
FROM_FILE: Final = "configuration"
ADDED: Final = "added"


def commands(peers: AgentPeers, homeserver: Homeserver | None) -> Mapping[str, Command]:
    """By the names that the control socket knows them by. `peers-list` takes the place of the one that knows
    of servers alone. Without a homeserver the node is a guest, and has peers of agents alone."""
    return {
        "peers-add": partial(add, peers, homeserver),
        "peers-remove": partial(remove, peers),
        "peers-trust": partial(trust, peers, homeserver),
        "peers-list": partial(list_peers, peers, homeserver),
    }


async def add(
    peers: AgentPeers, homeserver: Homeserver | None, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What is left out is as it is where the configuration leaves it out, also of a peer that is there."""
    arguments = Arguments(given)
    said: dict[str, Any] = {
        "node_id": arguments.text("node_id"),
        "trusted": not arguments.flag("untrusted"),
        "require_signature": arguments.flag("require_signature"),
    }
    for name in ("url", "profile", "signing_key"):
        value = arguments.optional_text(name)
        if value is not None:
            said[name] = value
    for name in ("namespaces", "networks"):
        values = arguments.texts(name, MOST_TEXTS)
        if values:
            said[name] = values
    peer, authority = read_peer(said), _authority(given)
    if isinstance(peer, LocalError):
        raise peer
    changed = await peers.add(peer, authority)
    return {"changed": changed, **_outcome(peers, homeserver, peer.node_id)}


async def remove(peers: AgentPeers, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`peer` is what it is afterwards: None, or what the configuration says."""
    node_id = Arguments(given).text("node_id")
    changed = await peers.remove(node_id)
    left = peers.book.find(node_id)
    return {"node_id": node_id, "changed": changed, "peer": None if left is None else _shown(left)}


async def trust(
    peers: AgentPeers, homeserver: Homeserver | None, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    arguments = Arguments(given)
    node_id = arguments.text("node_id")
    changed = await peers.trust(node_id, trusted=not arguments.flag("no"))
    return {"changed": changed, **_outcome(peers, homeserver, node_id)}


async def list_peers(
    peers: AgentPeers, homeserver: Homeserver | None, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """`agent_peers`: those with which agents are exchanged, all that the search leaves."""
    words = (Arguments(given).optional_text("search") or "").casefold()
    found = sorted(
        (one for one in peers.book if words in one.node_id.casefold()), key=lambda one: one.node_id
    )
    servers = {"peers": [], "total": 0} if homeserver is None else await peers_list(homeserver, given)
    return {**servers, "agent_peers": [_shown(one) for one in found]}


def _outcome(peers: AgentPeers, homeserver: Homeserver | None, node_id: str) -> Mapping[str, Any]:
    """`is_refused`: the configuration keeps away by name with whom agents are to be exchanged."""
    known = peers.book.find(node_id)
    if known is None:
        raise LocalError(
            f"Somebody else has removed {node_id} in this very moment.",
            "`palaver peers list` shows what is there.",
        )
    is_homeserver = known.said.trusted and known.said.profile is PeerProfile.MATRIX
    is_refused = (
        is_homeserver and homeserver is not None and not homeserver.settings.policy.admits(known.node_id)
    )
    return {**_shown(known), "is_refused": is_refused}


def _shown(known: KnownPeer) -> Mapping[str, Any]:
    """Without keys and certificates: that there are some is enough."""
    said = known.said
    is_published = said.profile is PeerProfile.CIS_1_1
    return {
        "node_id": said.node_id,
        "url": said.url,
        "trusted": said.trusted,
        "profile": said.profile.value,
        "from": ADDED if known.in_file is None else FROM_FILE,
        "overridden": known.is_overridden,
        "namespaces": said.namespaces,
        "networks": [str(network) for network in said.sources] if is_published else [],
        "has_authority": known.authority is not None,
        "has_signing_key": said.signing_key is not None,
        "require_signature": said.require_signature,
    }


def _authority(given: Mapping[str, Any]) -> str | None:
    value = given.get("authority")
    if value is None:
        return None
    if not isinstance(value, str):
        raise LocalError("The authority is not a text.", f"Send its PEM, at most {MOST_BYTES} bytes.")
    read = read_authority(value)
    if isinstance(read, LocalError):
        raise read
    return read
