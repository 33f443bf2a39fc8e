"""What goes wrong between this node and another server when this node asks. Each says whose fault it is.

`problem` is what comes after the server's name in a sentence; it may be shown to whoever caused the request,
so it holds nothing of this machine.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from federation.errors import PeerError

LONGEST_TEXT: Final = 300


class Outcome(StrEnum):
    """How a request ended. The values are metric labels: few, and never taken from a peer."""

    ANSWERED = "answered"
    NOT_ALLOWED = "not_allowed"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    FAILED = "failed"
    MALFORMED = "malformed"


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
