"""TLS on the port: the certificate, the key, the client certificates, and reading all of them again.

Why a TLS handshake failed, in few words.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509

from federation.http.server.peer_certificates import PeerCertificates, load_peer_certificates
from storage.errors import LocalError

# Forward secrecy and authenticated encryption only; TLS 1.3 has nothing else, and keeps its own list.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """All in PEM. `client_certificates`: by server name of the peer, its own leaf or its authority."""

    certificate: Path
    private_key: Path
    client_certificates: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generation:
    """What was read together is used together."""

    context: ssl.SSLContext
    peers: PeerCertificates
    # The peers that must show a certificate, in lower case.
    required: frozenset[str]


class Tls:
    """The generation in force. A connection keeps the one it began with."""

    def __init__(self, files: TlsFiles, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Raises LocalError when the files are not usable."""
        self._files = files
        self._now = now
        self.current = load(files, now())

    def reload(self) -> LocalError | None:
        """Read the files again, for new connections. Returns what is wrong with them; the old stay then."""
        try:
            self.current = load(self._files, self._now())
        except LocalError as error:
            return error
        return None


def load(files: TlsFiles, now: datetime) -> Generation:
    check_certificate(files.certificate, now)
    peers = load_peer_certificates(files.client_certificates)
    return Generation(make_context(files, peers), peers, peers.required())


def make_context(files: TlsFiles, peers: PeerCertificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_chain(context, files)
    if peers.pinned:
        # Others come without one, so it cannot be required of everybody.
        context.verify_mode = ssl.CERT_OPTIONAL
        # A pinned leaf is an anchor although nothing above it is known.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=peers.trusted())
    return context


def check_certificate(path: Path, now: datetime) -> None:
    """OpenSSL serves an expired certificate without a word; every peer would refuse it."""
    try:
        leaf = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        raise _unreadable("certificate", path, error) from None
    except ValueError:
        raise LocalError(
            f"The TLS certificate {path} is no certificate in PEM.",
            "It begins with -----BEGIN CERTIFICATE-----, this server's own first, then those above it.",
        ) from None
    if leaf.not_valid_after_utc <= now:
        raise LocalError(
            f"The TLS certificate {path} expired on {leaf.not_valid_after_utc:%d %B %Y}.",
            "Renew it; other servers refuse an expired one.",
        )
    if leaf.not_valid_before_utc > now:
        raise LocalError(
            f"The TLS certificate {path} is not valid before {leaf.not_valid_before_utc:%d %B %Y %H:%M} UTC.",
            "Check the clock of this machine, or wait until then.",
        )


def _load_chain(context: ssl.SSLContext, files: TlsFiles) -> None:
    def no_password() -> str:
        # Without this, OpenSSL would ask on the terminal and wait for ever.
        raise LocalError(
            f"The private key {files.private_key} is encrypted.",
            "Decrypt it into a file that only this program can read: `openssl pkey -in … -out …`.",
        )

    try:
        files.private_key.open("rb").close()
    except OSError as error:
        raise _unreadable("private key", files.private_key, error) from None
    try:
        context.load_cert_chain(files.certificate, files.private_key, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise LocalError(
                f"The private key {files.private_key} does not fit the certificate {files.certificate}.",
                "Name the key that the certificate was issued for.",
            ) from None
        raise LocalError(
            f"The certificate {files.certificate} and the private key {files.private_key} cannot be used:"
            f" OpenSSL says {(error.reason or 'no more').lower().replace('_', ' ')}.",
            "Both have to be in PEM; the key is RSA of at least 2048 bits, or an elliptic curve.",
        ) from None


def _unreadable(what: str, path: Path, error: OSError) -> LocalError:
    return LocalError(
        f"The TLS {what} {path} could not be read: {error.strerror}.",
        "Put it there, in PEM, and let this program read it.",
    )


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
