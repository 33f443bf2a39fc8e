"""The client certificate that a connection showed, and what a request can learn of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Verified in the handshake. `peers` are the server names it speaks for, in lower case."""

    der: bytes
    peers: frozenset[str]
