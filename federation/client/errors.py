"""Errors of requests to other servers. Each class says whose fault it is.

`problem` completes a sentence that begins with the server's name. It may be shown to the user or server that
caused the request, so it contains no details of this machine. `peer_error` converts exceptions of aiohttp,
TLS and sockets.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import aiohttp

from federation.client.dns import AddressBlocked
from federation.matrix.errors import PeerError
from federation.observer import Outcome

MAX_TEXT_LENGTH: Final = 300


class PeerNotAllowed(PeerError):
    """The configuration of this server does not allow contacting the peer."""


class PeerUnreachable(PeerError):
    """Server discovery failed, the connection failed, or it was closed before the response."""


class PeerTlsFailure(PeerUnreachable):
    """The TLS handshake failed, or the certificate is not valid for the peer."""


class PeerTimedOut(PeerUnreachable):
    """The peer did not answer in time. It may or may not have received the request."""


class PeerMalformed(PeerError):
    """The response is invalid: not JSON, too large, or a redirect."""


class PeerRefused(PeerError):
    """The peer answered with a status that is not 2xx."""

    def __init__(
        self, peer: str, status: int, errcode: str | None, text: str, retry_after_ms: int | None = None
    ) -> None:
        detail = f": {text}" if text else ""
        super().__init__(peer, f"answered {status} {errcode or 'without a Matrix error'}{detail}")
        self.status = status
        self.errcode = errcode
        self.text = text
        self.retry_after_ms = retry_after_ms


def refusal(peer: str, status: int, content: Any, headers: Mapping[str, str]) -> PeerError:
    """The error for a response whose status is not 2xx. `content` is its JSON body, None if it has none."""
    if 300 <= status < 400:
        # Following a redirect would send a request that is signed for one server to another one.
        return PeerMalformed(peer, f"answered with a redirect ({status}), which federation does not allow")
    errcode = text = retry_after = None
    if isinstance(content, dict):
        errcode, text, retry_after = (content.get(name) for name in ("errcode", "error", "retry_after_ms"))
    return PeerRefused(
        peer,
        status,
        _printable(errcode)[:64] if isinstance(errcode, str) else None,
        _printable(text) if isinstance(text, str) else "",
        _retry_after(retry_after, headers.get("Retry-After")),
    )


def is_temporary(error: PeerError) -> bool:
    """Whether the same request may succeed later: the peer was unreachable, overloaded or failing."""
    return isinstance(error, PeerUnreachable) or (
        isinstance(error, PeerRefused) and (error.status == 429 or error.status >= 500)
    )


def outcome_of(error: PeerError | None) -> Outcome:
    match error:
        case None:
            return Outcome.ANSWERED
        case PeerNotAllowed():
            return Outcome.NOT_ALLOWED
        case PeerTimedOut():
            return Outcome.TIMED_OUT
        case PeerTlsFailure():
            return Outcome.TLS
        case PeerUnreachable():
            return Outcome.UNREACHABLE
        case PeerRefused(status=status):
            return Outcome.FAILED if status >= 500 else Outcome.REFUSED
        case _:
            return Outcome.MALFORMED


def _retry_after(milliseconds: Any, header: str | None) -> int | None:
    """`retry_after_ms`, or the header of RFC 9110 10.2.3 if its value is a number of seconds."""
    if isinstance(milliseconds, int) and not isinstance(milliseconds, bool) and milliseconds >= 0:
        return min(milliseconds, 2**53 - 1)
    if header is not None and header.isascii() and header.isdigit() and len(header) < 10:
        return int(header) * 1000
    return None


def _printable(text: str) -> str:
    """A peer's text made safe for one line of a log, and shortened."""
    return "".join(character if character.isprintable() else " " for character in text[:MAX_TEXT_LENGTH]).strip()


T = TypeVar("T", bound=BaseException)

NOT_CONNECTED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection was made, so nothing was sent, and another candidate can be tried."""


def peer_error(peer: str, error: Exception) -> PeerError:
    """Convert an exception of a request to a peer."""
    tls = _cause(error, ssl.SSLError)
    if tls is not None:
        return PeerTlsFailure(peer, _tls_problem(tls))
    if isinstance(error, asyncio.TimeoutError):
        return PeerTimedOut(peer, "took too long to answer")
    if _cause(error, AddressBlocked) is not None:
        return PeerUnreachable(peer, "resolves to an address that this server is configured not to connect to")
    if isinstance(error, aiohttp.ClientConnectorDNSError) or _cause(error, socket.gaierror) is not None:
        return PeerUnreachable(peer, "could not be resolved to an address")
    if isinstance(error, aiohttp.ClientConnectorError):
        return PeerUnreachable(peer, f"could not be reached: {connection_failure(error.os_error)}")
    if isinstance(error, aiohttp.ClientResponseError):
        return PeerMalformed(peer, "answered with something that is not HTTP")
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        return PeerUnreachable(peer, "closed the connection")
    return PeerMalformed(peer, "answered with something that could not be read")


def _tls_problem(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that is not valid: {error.verify_message.rstrip('.')}"
    # Only exceptions raised by OpenSSL itself have a reason.
    reason = (getattr(error, "reason", None) or "handshake failed").lower().replace("_", " ")
    return f"failed the TLS handshake: {reason}"


def _cause(error: BaseException | None, kind: type[T]) -> T | None:
    """The innermost exception of that kind: aiohttp's own exceptions also derive from those of `ssl`, but
    lack their details."""
    found = None
    while error is not None:
        if isinstance(error, kind):
            found = error
        error = error.__cause__
    return found


def connection_failure(error: OSError) -> str:
    """Why a connection failed, as the operating system describes it. The messages of asyncio contain
    addresses."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return os.strerror(error.errno).lower() if error.errno else "no response"
