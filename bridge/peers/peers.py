"""Which nodes this one exchanges agents with: the peers of the configuration, and those that operators have
added while the node ran.

A peer that was added is like one of the configuration. Of a peer of the configuration an operator decides
whether it is trusted, and nothing more: everything else belongs to the file.
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

MOST: Final = 1_000
"""Peers that operators may add."""
MOST_NAMESPACES: Final = 256
MOST_NETWORKS: Final = 256


@dataclass(frozen=True, slots=True)
class Kept:
    """What operators have said of a peer. `added`: all of it; None where the configuration says the rest.
    `authority`: certificates to believe from it alone, PEM."""

    node_id: str
    trusted: bool
    added: AgentPeer | None = None
    authority: str | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """What operators have said of a peer no longer counts."""

    node_id: str


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """`said` is trusted as it holds now. `in_file` is what the configuration says; None of a peer that was
    added."""

    said: AgentPeer
    in_file: AgentPeer | None = None
    kept: Kept | None = None

    @property
    def node_id(self) -> str:
        return self.said.node_id

    @property
    def authority(self) -> str | None:
        return self.kept.authority if self.in_file is None and self.kept is not None else None

    @property
    def is_overridden(self) -> bool:
        """Whether it is trusted otherwise than the configuration says."""
        return self.in_file is not None and self.in_file.trusted is not self.said.trusted


Decision = Kept | Forget | None
"""What is written down; None when all is so already."""


class AgentPeerBook:
    """All of them, as they stand at one moment. It is not changed: another one takes its place."""

    def __init__(
        self,
        own_node: str,
        federation: AgentFederation,
        kept: Iterable[Kept] = (),
        *,
        guest_of: str | None = None,
    ) -> None:
        """`guest_of` is the homeserver of which this node is a guest; None: it is one itself."""
        self._own_node = own_node
        self._guest_of = guest_of
        self._federation = federation
        self._kept = {one.node_id.lower(): one for one in kept}
        in_file = {one.node_id.lower(): one for one in federation.peers}
        self._known = {name: _of_file(one, self._kept.get(name)) for name, one in in_file.items()}
        for name, one in self._kept.items():
            if name not in self._known and one.added is not None:
                self._known[name] = KnownPeer(_trusted(one.added, one.trusted), None, one)

    def __iter__(self) -> Iterator[KnownPeer]:
        return iter(self._known.values())

    def find(self, node_id: str) -> KnownPeer | None:
        """In any case: no two peers differ by that alone."""
        return self._known.get(node_id.lower())

    # -- what follows from it --

    @cached_property
    def accesses(self) -> Mapping[str, PeerAccess]:
        """For the connector, by their ids."""
        main = self._federation.room.namespace
        return {one.node_id: access(one.said, main) for one in self}

    @cached_property
    def servers(self) -> Mapping[str, PeerSettings]:
        """The homeservers among those that are trusted, by their names in lower case."""
        return {
            name: PeerSettings(homeserver_address(one.said.url), certificates=one.authority)
            for name, one in self._known.items()
            if self._federation.enabled and one.said.trusted and one.said.profile is PeerProfile.MATRIX
        }

    @cached_property
    def distrusted(self) -> frozenset[str]:
        """In lower case: "if not, it is refused by name"."""
        if not self._federation.enabled:
            return frozenset()
        return frozenset(name for name, one in self._known.items() if not one.said.trusted)

    @cached_property
    def plain_networks(self) -> tuple[Network, ...]:
        """From which published nodes speak plain HTTP. One that is not trusted is told so over HTTP."""
        if not self._federation.enabled:
            return ()
        return tuple(network for one in self if one.said.is_plain for network in one.said.sources)

    # -- what operators want --

    def add(self, peer: AgentPeer, authority: str | None) -> Decision | LocalError:
        """Said of a peer that was added before, it takes the place of what was said then."""
        refusal = self._closed() or self._wrong_peer(peer, authority)
        if refusal is not None:
            return refusal
        known = self.find(peer.node_id)
        if known is not None and known.in_file is not None:
            return _belongs_to_the_file(known.node_id, "It is a peer already")
        if known is not None and known.node_id != peer.node_id:
            return LocalError(
                f"This node knows {known.node_id}, which differs from {peer.node_id} in capitals alone.",
                f"Write {known.node_id}, or remove that one first.",
            )
        if known is None and sum(one.added is not None for one in self._kept.values()) >= MOST:
            return LocalError(
                f"There are {MOST} peers already that were added.",
                "Remove some with `palaver peers remove`, or write peers into the configuration.",
            )
        wanted = Kept(peer.node_id, peer.trusted, _trusted(peer, True), authority)
        return None if known is not None and known.kept == wanted else wanted

    def remove(self, node_id: str) -> Decision | LocalError:
        """One that was added goes. Of one of the configuration what the file says counts again."""
        kept, known = self._kept.get(node_id.lower()), self.find(node_id)
        if kept is not None:
            return Forget(kept.node_id)
        if known is not None:
            return _belongs_to_the_file(known.node_id, "It cannot be removed")
        return None

    def trust(self, node_id: str, *, trusted: bool) -> Decision | LocalError:
        refusal = self._closed()
        if refusal is not None:
            return refusal
        known = self.find(node_id)
        if known is None:
            return LocalError(f"{node_id} is no peer of this node.", "`palaver peers add` makes it one.")
        if known.in_file is None:
            assert known.kept is not None, "it was added"
            wanted = Kept(known.node_id, trusted, known.kept.added, known.kept.authority)
            return None if wanted == known.kept else wanted
        if known.in_file.trusted is trusted:
            return None if known.kept is None else Forget(known.kept.node_id)
        wanted = Kept(known.node_id, trusted)
        return None if wanted == known.kept else wanted

    # -- inside --

    def _closed(self) -> LocalError | None:
        if self._federation.enabled and self._federation.room.federate:
            return None
        return LocalError(
            "The configuration lets this node exchange agents with nobody.",
            "Set agent_federation.enabled and agent_federation.room.federate to true, and restart the node.",
        )

    def _wrong_peer(self, peer: AgentPeer, authority: str | None) -> LocalError | None:
        """What can be said of a peer only beside the node whose peer it is."""
        if peer.node_id.lower() == self._own_node.lower():
            return LocalError(f"{peer.node_id} is this node itself.", "Name another one.")
        if self._guest_of is not None and peer.profile is PeerProfile.MATRIX:
            return LocalError(
                f"This node is a guest of {self._guest_of}, and cannot share rooms with other nodes.",
                "Say --profile cis-1.1 and where the node is, and name this node so there.",
            )
        known = access(peer, self._federation.room.namespace).peer
        for connector in CONNECTORS:
            refusal = connector.wrong_peer(known)
            if refusal is not None:
                return refusal
        if authority is not None and peer.profile is not PeerProfile.MATRIX:
            return LocalError(
                'An authority is for the profile "matrix".',
                "Published nodes are believed by where they send from, and by their signing key.",
            )
        return None


def read_peer(given: Mapping[str, Any]) -> AgentPeer | LocalError:
    """A peer as the configuration would hold it; or what is wrong with it, in the same words."""
    for name, most in (("namespaces", MOST_NAMESPACES), ("networks", MOST_NETWORKS)):
        if len(given.get(name) or ()) > most:
            return LocalError(f"These are more than {most} {name}.", "Name fewer.")
    try:
        return AgentPeer.model_validate(dict(given))
    except ValidationError as error:
        detail = error.errors()[0]
    # The configuration's own validators say both in one: "what is wrong: what to do".
    problem, _, advice = detail["msg"].removeprefix("Value error, ").partition(": ")
    if detail["type"] != "value_error":
        problem, advice = detail["msg"][:1].lower() + detail["msg"][1:], ""
    name, value = str((detail["loc"] or ("",))[0]), detail.get("input")
    # A URL may hold a password, which is what is wrong with it then.
    shown = f"{value} " if name in ("node_id", "namespaces") and isinstance(value, str) else ""
    named = f"{name}: " if name else ""
    return LocalError(
        f"{named}{shown}{problem}.",
        f"{advice[:1].upper()}{advice[1:]}."
        if advice
        else "`palaver peers add --help` says how it is given.",
    )


def _of_file(peer: AgentPeer, kept: Kept | None) -> KnownPeer:
    """A peer that was added first and is in the file since is as the file says; but if either says that it is
    not trusted, it is not, until somebody says so again."""
    if kept is None:
        return KnownPeer(peer, peer)
    trusted = kept.trusted if kept.added is None else kept.trusted and peer.trusted
    return KnownPeer(_trusted(peer, trusted), peer, kept)


def _trusted(peer: AgentPeer, trusted: bool) -> AgentPeer:
    return peer.model_copy(update={"trusted": trusted})


def _belongs_to_the_file(node_id: str, sentence: str) -> LocalError:
    return LocalError(
        f"{sentence}: {node_id} is in the configuration, and everything but its trust belongs to the file.",
        "Change it there and restart the node; `palaver peers trust` says whether it is trusted.",
    )
