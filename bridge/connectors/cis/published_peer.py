"""Which peer a single event over HTTP is from.

"for `cis-1.1`, an allowed source network plus a signature if a key is configured", or the certificate that
its connection has shown. What the event says of itself only decides between peers that share a network.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.connectors.cis.envelope import Envelope
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.settings import CisSettings, PeerAccess
from federation.admission import Address, is_within


@dataclass(frozen=True, slots=True)
class Source:
    """`address` is None for a connection that is gone. `shown`: the peers that its certificate speaks for, in
    lower case. `header` is what `x-origin-server` says."""

    address: Address | None
    shown: frozenset[str] = frozenset()
    header: str | None = None

    def may_be_somebody(self, settings: CisSettings) -> bool:
        """Whether anybody that we know might be at the other end."""
        return any(self._may_be(access) for access in settings.takers_of_events())

    def candidates(self, settings: CisSettings) -> list[Peer]:
        return [access.peer for access in settings.takers_of_events() if self._may_be(access)]

    def _may_be(self, access: PeerAccess) -> bool:
        if access.peer.node_id.lower() in self.shown:
            return True
        return self.address is not None and is_within(self.address, access.networks)


def peer_of(event: Envelope, source: Source, settings: CisSettings) -> Peer | None:
    """Where only one can have sent it, it has, whatever the event says: that is looked at afterwards."""
    candidates = source.candidates(settings)
    if len(candidates) == 1:
        return candidates[0]
    for claim in _claims(event, source):
        for peer in candidates:
            if peer.is_named_by(claim):
                return peer
    return None


def _claims(event: Envelope, source: Source) -> Iterable[str]:
    """In the order in which a published node believes them."""
    claims = (event.origin, event.sender_domain, source.header)
    return [claim for claim in claims if claim is not None]
