"""Classification of failed handshakes."""

import ssl

import pytest

from federation.http.server.tls import HandshakeFailure, failure_of


def openssl(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (TimeoutError(), HandshakeFailure.TIMEOUT),
        (ConnectionAbortedError("SSL handshake is taking longer than 10 seconds"), HandshakeFailure.TIMEOUT),
        (ConnectionResetError(), HandshakeFailure.CLOSED),
        (BrokenPipeError(), HandshakeFailure.CLOSED),
        (ssl.SSLEOFError(), HandshakeFailure.CLOSED),
        (openssl("UNEXPECTED_EOF_WHILE_READING"), HandshakeFailure.CLOSED),
        (ssl.SSLCertVerificationError(), HandshakeFailure.THEIR_CERTIFICATE),
        (openssl("TLSV1_ALERT_UNKNOWN_CA"), HandshakeFailure.OUR_CERTIFICATE),
        (openssl("SSLV3_ALERT_BAD_CERTIFICATE"), HandshakeFailure.OUR_CERTIFICATE),
        (openssl("UNSUPPORTED_PROTOCOL"), HandshakeFailure.PROTOCOL),
        (ssl.SSLError(), HandshakeFailure.PROTOCOL),
    ],
)
def test_failed_handshakes_are_classified(error: Exception, failure: HandshakeFailure) -> None:
    """The reason shows whether a certificate failed, and whose."""
    assert failure_of(error) is failure
