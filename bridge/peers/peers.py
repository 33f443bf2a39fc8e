"""The agent peers of a node: those of the configuration, and those that operators have added at runtime.

An added peer is like a configured one. For a configured peer an operator can only change whether it is
trusted; everything else belongs to the configuration file.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError

from bridge.config.agent_federation import AgentFederation, AgentPeer, access, homeserver_address
from bridge.connectors.registry import CONNECTORS
from bridge.peers.peer import PeerAccess, PeerProfile
from federation.client.peer_settings import PeerSettings
from federation.matrix.networks import Network
from storage.errors import LocalError

MAX_PEERS: Final = 1_000
"""Peers that operators may add."""
MAX_NAMESPACES: Final = 256
MAX_NETWORKS: Final = 256


@dataclass(frozen=True, slots=True)
class StoredPeer:
    """A peer as operators have stored it. `added` has its settings; None if the configuration has them.
    `authority`: CA certificates for this peer only, PEM."""

    node_id: str
    trusted: bool
    added: AgentPeer | None = None
    authority: str | None = None


@dataclass(frozen=True, slots=True)
class PeerRemoval:
    """Delete the stored peer."""

    node_id: str


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """`settings` include the effective trust. `in_file` is the configured peer; None if the peer was
    added."""

    settings: AgentPeer
    in_file: AgentPeer | None = None
    stored: StoredPeer | None = None

    @property
    def node_id(self) -> str:
        return self.settings.node_id

    @property
    def authority(self) -> str | None:
        return self.stored.authority if self.in_file is None and self.stored is not None else None

    @property
    def is_overridden(self) -> bool:
        """Whether an operator has changed the configured trust."""
        return self.in_file is not None and self.in_file.trusted is not self.settings.trusted


Decision = StoredPeer | PeerRemoval | None
"""What to store; None if nothing changes."""


class PeerSnapshot:
    """All peers at one moment. It is immutable: a change replaces it."""

    def __init__(
        self,
        own_node: str,
        federation: AgentFederation,
        stored: Iterable[StoredPeer] = (),
        *,
        homeserver: str | None = None,
    ) -> None:
        """`homeserver` is the homeserver to which this node is attached; None if it is one itself."""
        self._own_node = own_node
        self._homeserver = homeserver
        self._federation = federation
        self._stored = {one.node_id.lower(): one for one in stored}
        in_file = {one.node_id.lower(): one for one in federation.peers}
        self._known = {name: _configured_peer(one, self._stored.get(name)) for name, one in in_file.items()}
        for name, one in self._stored.items():
            if name not in self._known and one.added is not None:
                self._known[name] = KnownPeer(_trusted(one.added, one.trusted), None, one)

    def __iter__(self) -> Iterator[KnownPeer]:
        return iter(self._known.values())

    def find(self, node_id: str) -> KnownPeer | None:
        """Case-insensitive: no two peers differ only in case."""
        return self._known.get(node_id.lower())

    # -- derived values --

    @cached_property
    def accesses(self) -> Mapping[str, PeerAccess]:
        """For the connector, by node id."""
        main = self._federation.room.namespace
        return {one.node_id: access(one.settings, main) for one in self}

    @cached_property
    def servers(self) -> Mapping[str, PeerSettings]:
        """The trusted peers that are homeservers, by lower-case name."""
        return {
            name: PeerSettings(homeserver_address(one.settings.url), certificates=one.authority)
            for name, one in self._known.items()
            if self._federation.enabled and one.settings.trusted and one.settings.profile is PeerProfile.MATRIX
        }

    @cached_property
    def distrusted(self) -> frozenset[str]:
        """Lower-case names: "if not, it is refused by name"."""
        if not self._federation.enabled:
            return frozenset()
        return frozenset(name for name, one in self._known.items() if not one.settings.trusted)

    @cached_property
    def plain_networks(self) -> tuple[Network, ...]:
        """Networks from which published nodes send plain HTTP. Distrusted nodes are included, so that they
        get their refusal over HTTP."""
        if not self._federation.enabled:
            return ()
        return tuple(network for one in self if one.settings.is_plain for network in one.settings.sources)

    # -- changes by operators --

    def add(self, peer: AgentPeer, authority: str | None) -> Decision | LocalError:
        """Adding a peer again replaces its settings."""
        refusal = self._federation_disabled() or self._peer_problem(peer, authority)
        if refusal is not None:
            return refusal
        known = self.find(peer.node_id)
        if known is not None and known.in_file is not None:
            return _configured_peer_error(known.node_id, "It is already a peer")
        if known is not None and known.node_id != peer.node_id:
            return LocalError(
                f"This node knows {known.node_id}, which differs from {peer.node_id} only in case.",
                f"Use {known.node_id}, or remove that peer first.",
            )
        if known is None and sum(one.added is not None for one in self._stored.values()) >= MAX_PEERS:
            return LocalError(
                f"There are already {MAX_PEERS} added peers.",
                "Remove some with `palaver peers remove`, or move peers to the configuration.",
            )
        wanted = StoredPeer(peer.node_id, peer.trusted, _trusted(peer, True), authority)
        return None if known is not None and known.stored == wanted else wanted

    def remove(self, node_id: str) -> Decision | LocalError:
        """Delete an added peer. A configured peer returns to its configured trust."""
        stored, known = self._stored.get(node_id.lower()), self.find(node_id)
        if stored is not None:
            return PeerRemoval(stored.node_id)
        if known is not None:
            return _configured_peer_error(known.node_id, "It cannot be removed")
        return None

    def trust(self, node_id: str, *, trusted: bool) -> Decision | LocalError:
        refusal = self._federation_disabled()
        if refusal is not None:
            return refusal
        known = self.find(node_id)
        if known is None:
            return LocalError(f"{node_id} is not a peer of this node.", "Add it with `palaver peers add`.")
        if known.in_file is None:
            assert known.stored is not None, "an added peer is stored"
            wanted = StoredPeer(known.node_id, trusted, known.stored.added, known.stored.authority)
            return None if wanted == known.stored else wanted
        if known.in_file.trusted is trusted:
            return None if known.stored is None else PeerRemoval(known.stored.node_id)
        wanted = StoredPeer(known.node_id, trusted)
        return None if wanted == known.stored else wanted

    # -- internals --

    def _federation_disabled(self) -> LocalError | None:
        if self._federation.enabled and self._federation.room.federate:
            return None
        return LocalError(
            "The configuration disables the exchange of agents with other nodes.",
            "Set agent_federation.enabled and agent_federation.room.federate to true, and restart the node.",
        )

    def _peer_problem(self, peer: AgentPeer, authority: str | None) -> LocalError | None:
        """Checks of a peer that depend on this node."""
        if peer.node_id.lower() == self._own_node.lower():
            return LocalError(f"{peer.node_id} is this node itself.", "Use another node id.")
        if self._homeserver is not None and peer.profile is PeerProfile.MATRIX:
            return LocalError(
                f"This node is attached to {self._homeserver}, and cannot share rooms with other nodes.",
                "Use --profile cis-1.1 with the node's URL, and configure this node the same way there.",
            )
        known = access(peer, self._federation.room.namespace).peer
        for connector in CONNECTORS:
            refusal = connector.wrong_peer(known)
            if refusal is not None:
                return refusal
        if authority is not None and peer.profile is not PeerProfile.MATRIX:
            return LocalError(
                'An authority needs the profile "matrix".',
                "Published nodes are authenticated by their networks and signing keys.",
            )
        return None


def read_peer(given: Mapping[str, Any]) -> AgentPeer | LocalError:
    """Parse a peer as the configuration does; or return the problem, in the same words."""
    for name, most in (("namespaces", MAX_NAMESPACES), ("networks", MAX_NETWORKS)):
        if len(given.get(name) or ()) > most:
            return LocalError(f"There are more than {most} {name}.", "Use fewer.")
    try:
        return AgentPeer.model_validate(dict(given))
    except ValidationError as error:
        detail = error.errors()[0]
    # The configuration's validators combine both: "problem: advice".
    problem, _, advice = detail["msg"].removeprefix("Value error, ").partition(": ")
    if detail["type"] != "value_error":
        problem, advice = detail["msg"][:1].lower() + detail["msg"][1:], ""
    name, value = str((detail["loc"] or ("",))[0]), detail.get("input")
    # The URL may contain a password, which may be the problem.
    shown = f"{value} " if name in ("node_id", "namespaces") and isinstance(value, str) else ""
    named = f"{name}: " if name else ""
    return LocalError(
        f"{named}{shown}{problem}.",
        f"{advice[:1].upper()}{advice[1:]}." if advice else "See `palaver peers add --help`.",
    )


def _configured_peer(peer: AgentPeer, stored: StoredPeer | None) -> KnownPeer:
    """A peer that was added and is now also in the file has the file's settings; it is trusted only if both
    trust it, until an operator changes that."""
    if stored is None:
        return KnownPeer(peer, peer)
    trusted = stored.trusted if stored.added is None else stored.trusted and peer.trusted
    return KnownPeer(_trusted(peer, trusted), peer, stored)


def _trusted(peer: AgentPeer, trusted: bool) -> AgentPeer:
    return peer.model_copy(update={"trusted": trusted})


def _configured_peer_error(node_id: str, sentence: str) -> LocalError:
    return LocalError(
        f"{sentence}: {node_id} is in the configuration, and everything but its trust belongs to the file.",
        "Change it there and restart the node; `palaver peers trust` only changes its trust.",
    )
