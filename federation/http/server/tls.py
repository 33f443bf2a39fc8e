"""TLS on the port: loads and reloads the certificate, the key and the client certificates.

Also classifies failed handshakes.
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

# Only forward secrecy and authenticated encryption. TLS 1.3 has nothing else and its own list.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM. `client_certificates` maps server names of peers to their certificate or its
    authority."""

    certificate: Path
    private_key: Path
    client_certificates: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The result of loading the files once; its parts belong together."""

    context: ssl.SSLContext
    peers: PeerCertificates
    # The peers that must present a certificate, in lower case.
    required: frozenset[str]


class Tls:
    """The current TLS material. A connection keeps the one it was opened with."""

    def __init__(self, files: TlsFiles, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Raises LocalError if the files are not usable."""
        self._files = files
        self._now = now
        self.current = load(files, now())

    def reload(self) -> LocalError | None:
        """Load the files again for new connections. If they are not usable, return the error and keep the
        old material."""
        try:
            self.current = load(self._files, self._now())
        except LocalError as error:
            return error
        return None


def load(files: TlsFiles, now: datetime) -> TlsMaterial:
    check_certificate(files.certificate, now)
    peers = load_peer_certificates(files.client_certificates)
    return TlsMaterial(make_context(files, peers), peers, peers.required())


def make_context(files: TlsFiles, peers: PeerCertificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_chain(context, files)
    if peers.pinned:
        # Optional, because peers without a configured certificate have none.
        context.verify_mode = ssl.CERT_OPTIONAL
        # A pinned leaf is a trust anchor without its issuers.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=peers.trusted())
    return context


def check_certificate(path: Path, now: datetime) -> None:
    """Check the validity of the certificate: OpenSSL would serve an expired one without an error, and all
    peers would refuse it."""
    try:
        leaf = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        raise _unreadable("certificate", path, error) from None
    except ValueError:
        raise LocalError(
            f"The TLS certificate {path} is not a certificate in PEM.",
            "It begins with -----BEGIN CERTIFICATE-----: first this server's certificate, then its issuers.",
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
        # Without this, OpenSSL would prompt on the terminal and wait for ever.
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
                f"The private key {files.private_key} does not match the certificate {files.certificate}.",
                "Configure the key that the certificate was issued for.",
            ) from None
        raise LocalError(
            f"The certificate {files.certificate} and the private key {files.private_key} cannot be used:"
            f" OpenSSL reports {(error.reason or 'no reason').lower().replace('_', ' ')}.",
            "Both must be in PEM; the key must be RSA of at least 2048 bits or an elliptic curve key.",
        ) from None


def _unreadable(what: str, path: Path, error: OSError) -> LocalError:
    return LocalError(
        f"The TLS {what} {path} could not be read: {error.strerror}.",
        "Put it there, in PEM and readable for this program.",
    )


class HandshakeFailure(StrEnum):
    """The values are metric labels."""

    TIMEOUT = "timeout"
    CLOSED = "closed"
    # This server refused the peer's certificate; the peer refused this server's.
    THEIR_CERTIFICATE = "their_certificate"
    OUR_CERTIFICATE = "our_certificate"
    PROTOCOL = "protocol"


# The alerts of a peer that does not trust this server's certificate.
ALERTS = ("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_UNKNOWN", "ALERT_CERTIFICATE_EXPIRED")


def failure_of(error: BaseException) -> HandshakeFailure:
    """Classify an exception of a handshake, by its class or by OpenSSL's `reason`."""
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
