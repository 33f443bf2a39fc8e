"""What aiohttp, TLS and the sockets say went wrong, as the `PeerError` that says whose fault it is."""

import asyncio
import os
import socket
import ssl
from typing import Final, TypeVar

import aiohttp

from federation.errors import PeerError
from federation.peer_errors import PeerMalformed, PeerTimedOut, PeerTlsFailure, PeerUnreachable
from federation.service.addresses import AddressBlocked

T = TypeVar("T", bound=BaseException)

NOT_CONNECTED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""There was no connection, so nothing was sent, and another place may be tried."""


def peer_error(peer: str, error: Exception) -> PeerError:
    tls = _cause(error, ssl.SSLError)
    if tls is not None:
        return PeerTlsFailure(peer, _tls_problem(tls))
    if isinstance(error, asyncio.TimeoutError):
        return PeerTimedOut(peer, "took too long to answer")
    if _cause(error, AddressBlocked) is not None:
        return PeerUnreachable(peer, "leads to an address that this server does not connect to")
    if isinstance(error, aiohttp.ClientConnectorDNSError) or _cause(error, socket.gaierror) is not None:
        return PeerUnreachable(peer, "has no address that could be found")
    if isinstance(error, aiohttp.ClientConnectorError):
        return PeerUnreachable(peer, f"could not be reached: {reason(error.os_error)}")
    if isinstance(error, aiohttp.ClientResponseError):
        return PeerMalformed(peer, "answered with something that is not HTTP")
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        return PeerUnreachable(peer, "broke off the connection")
    return PeerMalformed(peer, "answered with something that could not be read")


def _tls_problem(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"showed a certificate that is not valid: {error.verify_message.rstrip('.')}"
    # Only what OpenSSL itself has raised has a reason.
    reason = (getattr(error, "reason", None) or "handshake failed").lower().replace("_", " ")
    return f"could not agree with this server on TLS: {reason}"


def _cause(error: BaseException | None, kind: type[T]) -> T | None:
    """The innermost of that kind: aiohttp's own are of TLS's kinds too, and lack what those know."""
    found = None
    while error is not None:
        if isinstance(error, kind):
            found = error
        error = error.__cause__
    return found


def reason(error: OSError) -> str:
    """Why there is no connection, in the system's words; asyncio's hold addresses."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    return os.strerror(error.errno).lower() if error.errno else "nobody answers there"
