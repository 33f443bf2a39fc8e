"""The configured client certificates of peers: which to trust, and to which peers a presented one
belongs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from federation.matrix.networks import PinnedCertificate, PresentedCertificate, peers_of_certificate
from storage.errors import LocalError


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate that was verified in the handshake. `peers` are those it belongs to, in lower
    case."""

    der: bytes
    peers: frozenset[str]


@dataclass(frozen=True, slots=True)
class PeerCertificates:
    """The certificates of all peers with a configured client certificate."""

    pinned: tuple[tuple[PinnedCertificate, x509.Certificate], ...] = ()

    def required(self) -> frozenset[str]:
        """Return the peers that must present a certificate, in lower case."""
        return frozenset(pin.peer.lower() for pin, _ in self.pinned)

    def trusted(self) -> str:
        """Return all certificates in PEM, without duplicates, as trust anchors for OpenSSL."""
        by_fingerprint = {pin.fingerprint: certificate for pin, certificate in self.pinned}
        return "".join(
            certificate.public_bytes(Encoding.PEM).decode("ascii") for certificate in by_fingerprint.values()
        )

    def identify(self, der: bytes) -> ClientCertificate:
        """Find the peers of a certificate that OpenSSL has verified. There are none if it cannot be
        parsed."""
        try:
            certificate = x509.load_der_x509_certificate(der)
            presented = PresentedCertificate(
                fingerprint_of(certificate), _names(certificate), self._signers(certificate)
            )
        except (ValueError, UnsupportedAlgorithm):
            # OpenSSL parses some certificates that this library does not.
            return ClientCertificate(der, frozenset())
        return ClientCertificate(der, peers_of_certificate(presented, [pin for pin, _ in self.pinned]))

    def _signers(self, certificate: x509.Certificate) -> frozenset[str]:
        return frozenset(
            pin.fingerprint
            for pin, authority in self.pinned
            if pin.is_authority and _is_signed_by(certificate, authority)
        )


def load_peer_certificates(files: Mapping[str, Path]) -> PeerCertificates:
    """Load the configured PEM file of each peer. Raises LocalError."""
    return PeerCertificates(
        tuple(pinned for peer, path in files.items() for pinned in _pin(peer, path, _read(peer, path)))
    )


def fingerprint_of(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(SHA256()).hex()


def _read(peer: str, path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise LocalError(
            f"The client certificate of {peer}, {path}, could not be read: {error.strerror}.",
            "Put the peer's certificate there, in PEM and readable for this program.",
        ) from None
    except ValueError:
        raise LocalError(
            f"The client certificate of {peer}, {path}, is not a certificate in PEM.",
            "It begins with -----BEGIN CERTIFICATE-----; `openssl x509 -inform DER` converts from DER.",
        ) from None


def _pin(
    peer: str, path: Path, certificates: list[x509.Certificate]
) -> list[tuple[PinnedCertificate, x509.Certificate]]:
    """Pin a leaf certificate alone: authorities that follow it in the file have signed others too."""
    leaf = certificates[0]
    if not _is_authority(leaf):
        _check_purpose(peer, path, leaf)
        return [(PinnedCertificate(peer, fingerprint_of(leaf), is_authority=False), leaf)]
    return [
        (PinnedCertificate(peer, fingerprint_of(certificate), is_authority=True), certificate)
        for certificate in certificates
        if _is_authority(certificate)
    ]


def _check_purpose(peer: str, path: Path, leaf: x509.Certificate) -> None:
    try:
        purposes = list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(purposes):
        # OpenSSL would refuse all handshakes of this peer, with only “unsuitable” as a reason.
        raise LocalError(
            f"The client certificate of {peer}, {path}, is not valid for TLS clients.",
            "Ask the peer for one whose extended key usage includes clientAuth.",
        )


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(
        [
            *names.get_values_for_type(x509.DNSName),
            *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
        ]
    )
