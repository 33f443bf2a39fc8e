"""A node with which agents are exchanged: its protocol and what it may do."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from federation.matrix.identifiers import parse_server_name
from federation.matrix.networks import Network

DEFAULT_NAMESPACE: Final = "default"


class PeerProfile(StrEnum):
    """The protocol of a peer. The values are those of the configuration."""

    MATRIX = "matrix"
    """A homeserver such as Palaver: events in rooms, flat contents."""
    CIS_1_1 = "cis-1.1"
    """A published node: single events over HTTP, nested contents."""


@dataclass(frozen=True, slots=True)
class Peer:
    """`namespaces`: "a peer lists the namespaces it may use". `public_key` and `require_signature` only apply
    to `cis-1.1`: what a homeserver sends is signed."""

    node_id: str
    profile: PeerProfile = PeerProfile.MATRIX
    trusted: bool = True
    namespaces: frozenset[str] = frozenset({DEFAULT_NAMESPACE})
    public_key: bytes | None = field(default=None, repr=False)
    require_signature: bool = False

    def is_named_by(self, server: str) -> bool:
        """Whether a server name, possibly with a port, denotes this peer. As the node of an agent it has only
        one name."""
        if server == self.node_id:
            return True
        parsed = parse_server_name(server)
        return parsed is not None and parsed.host.lower() == self.node_id.lower()


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """`url` and `networks` only apply to `cis-1.1`: where single events are sent to, and where they come
    from."""

    peer: Peer
    url: str | None = None
    networks: tuple[Network, ...] = ()

    @property
    def is_homeserver(self) -> bool:
        return self.peer.profile is PeerProfile.MATRIX
