"""A configured peer, as far as it decides what may come from it."""

from dataclasses import dataclass, field
from typing import Final

from bridge.connectors.cis.profile import PeerProfile
from federation.identifiers import parse_server_name

DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class Peer:
    """`namespaces`: "a peer lists the namespaces it may use". `public_key` and `require_signature` are of
    interest for `cis-1.1` alone: what a homeserver sends is signed."""

    node_id: str
    profile: PeerProfile = PeerProfile.MATRIX
    trusted: bool = True
    namespaces: frozenset[str] = frozenset({DEFAULT_NAMESPACE})
    public_key: bytes | None = field(default=None, repr=False)
    require_signature: bool = False

    def is_named_by(self, server: str) -> bool:
        """Whether this is the peer's name where it names itself as a server, which may be with its port. As
        the node of an agent it has one name, and no other."""
        if server == self.node_id:
            return True
        parsed = parse_server_name(server)
        return parsed is not None and parsed.host.lower() == self.node_id.lower()
