"""Why a TLS handshake failed, in few words."""

import ssl
from enum import StrEnum


class HandshakeFailure(StrEnum):
    """The values are metric labels."""

    TIMEOUT = "timeout"
    CLOSED = "closed"
    # The peer's certificate was not accepted; ours was not.
    THEIR_CERTIFICATE = "their_certificate"
    OUR_CERTIFICATE = "our_certificate"
    PROTOCOL = "protocol"


# How a peer says that it does not trust what we showed.
ALERTS = (
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
)


def failure_of(error: BaseException) -> HandshakeFailure:
    """Python says it in the class of its exception, OpenSSL in the `reason` of its own."""
    # A handshake that takes too long is aborted by asyncio with ConnectionAbortedError.
    if isinstance(error, (TimeoutError, ConnectionAbortedError)):
        return HandshakeFailure.TIMEOUT
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeFailure.THEIR_CERTIFICATE
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or ""
        if any(alert in reason for alert in ALERTS):
            return HandshakeFailure.OUR_CERTIFICATE
        if "UNEXPECTED_EOF" in reason or isinstance(error, ssl.SSLEOFError):
            return HandshakeFailure.CLOSED
        return HandshakeFailure.PROTOCOL
    return HandshakeFailure.CLOSED
