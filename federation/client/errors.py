"""What goes wrong between this node and another server when this node asks. Each says whose fault it is.

`problem` is what comes after the server's name in a sentence; it may be shown to whoever caused the request,
so it holds nothing of this machine.

What aiohttp, TLS and the sockets say went wrong, as the `PeerError` that says whose fault it is.
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

LONGEST_TEXT: Final = 300


class PeerNotAllowed(PeerError):
    """Our own rule: the configuration does not let us speak with this server."""


class PeerUnreachable(PeerError):
    """No way leads there, nobody listens there, or the connection broke off."""


class PeerTlsFailure(PeerUnreachable):
    """Somebody listens there and cannot show that it is this server, or does not speak TLS as we do."""


class PeerTimedOut(PeerUnreachable):
    """It may be that it never got the request, or that its answer got lost."""


class PeerMalformed(PeerError):
    """It answered with something that is no answer: no JSON, too large, a redirect."""


class PeerRefused(PeerError):
    """It answered with a status that is not 2xx."""

    def __init__(
        self, peer: str, status: int, errcode: str | None, text: str, retry_after_ms: int | None = None
    ) -> None:
        said = f": {text}" if text else ""
        super().__init__(peer, f"answered {status} {errcode or 'without a Matrix error'}{said}")
        self.status = status
        self.errcode = errcode
        self.text = text
        self.retry_after_ms = retry_after_ms


def refusal(peer: str, status: int, content: Any, headers: Mapping[str, str]) -> PeerError:
    """The error that an answer stands for. `content` is its JSON, None if it has none."""
    if 300 <= status < 400:
        # Followed, a redirect would carry a request that is signed for one server to another one.
        return PeerMalformed(peer, f"answered with a redirect ({status}), which federation does not have")
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


def may_pass(error: PeerError) -> bool:
    """Whether the same question may be answered later: the peer was not reached, or was in trouble."""
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
    """`retry_after_ms`, or the header of RFC 9110 10.2.3 if that names seconds."""
    if isinstance(milliseconds, int) and not isinstance(milliseconds, bool) and milliseconds >= 0:
        return min(milliseconds, 2**53 - 1)
    if header is not None and header.isascii() and header.isdigit() and len(header) < 10:
        return int(header) * 1000
    return None


def _printable(text: str) -> str:
    """A peer's text in one line of a log, and no longer than one."""
    return "".join(character if character.isprintable() else " " for character in text[:LONGEST_TEXT]).strip()


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
