"""Creates a TLS certificate for a first start: sufficient for TLS on this machine, but not trusted
elsewhere.

The key of its authority is discarded at once, so that it can sign nothing else. Trusting `ca.pem` means
trusting this one certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from federation.matrix.networks import host_of
from storage.durable_file import write_durably
from storage.errors import LocalError

LIFETIME = timedelta(days=730)
RENEW_BEFORE = timedelta(days=30)
# The certificate must already be valid for a peer whose clock is slightly behind.
BACKDATE = timedelta(hours=1)
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class DevelopmentCertificate:
    """Authority, certificate and key, in PEM."""

    authority: bytes
    certificate: bytes
    private_key: bytes


@dataclass(frozen=True, slots=True)
class DevelopmentFiles:
    authority: Path
    certificate: Path
    private_key: Path


def names_for(server_name: str) -> tuple[str, ...]:
    """Return the hosts of the certificate, without duplicates."""
    return tuple(dict.fromkeys([host_of(server_name).lower(), *LOCAL_NAMES]))


def build(names: Sequence[str], now: datetime) -> DevelopmentCertificate:
    """Create an authority and one certificate signed by it."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("Palaver development authority")
    authority = (
        _builder(issuer, issuer, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256())
    )
    certificate = (
        _builder(_name("Palaver development certificate"), issuer, key, now)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256())
    )
    return DevelopmentCertificate(
        authority.public_bytes(Encoding.PEM),
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def is_usable(generated: DevelopmentCertificate, names: Sequence[str], now: datetime) -> bool:
    """Whether the files are intact, for exactly these names, and valid for another `RENEW_BEFORE`.

    After a crash the files may come from two different runs and not match.
    """
    try:
        authority = x509.load_pem_x509_certificate(generated.authority)
        certificate = x509.load_pem_x509_certificate(generated.certificate)
        key = load_pem_private_key(generated.private_key, None)
        certificate.verify_directly_issued_by(authority)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return False
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    return (
        key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)
        and set(alternatives) == {_general_name(name) for name in names}
        and certificate.not_valid_before_utc <= now
        and now + RENEW_BEFORE <= certificate.not_valid_after_utc
    )


def files_in(directory: Path) -> DevelopmentFiles:
    return DevelopmentFiles(directory / "ca.pem", directory / "certificate.pem", directory / "key.pem")


def ensure(directory: Path, server_name: str, now: datetime | None = None) -> DevelopmentFiles:
    """Return the files, which are created if they are missing, damaged, for other names or about to
    expire."""
    now = now or datetime.now(UTC)
    files = files_in(directory)
    names = names_for(server_name)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_usable(_read(files), names, now):
            _write(files, build(names, now))
    except OSError as error:
        raise LocalError(
            f"The development certificate in {directory} could not be written or read: {error.strerror}.",
            "Make the directory writable for this program, or configure a certificate and its private key.",
        ) from None
    return files


def _read(files: DevelopmentFiles) -> DevelopmentCertificate:
    def content(path: Path) -> bytes:
        return path.read_bytes() if path.exists() else b""

    return DevelopmentCertificate(content(files.authority), content(files.certificate), content(files.private_key))


def _write(files: DevelopmentFiles, generated: DevelopmentCertificate) -> None:
    write_durably(files.private_key, generated.private_key, mode=0o600)
    write_durably(files.certificate, generated.certificate, mode=0o644)
    write_durably(files.authority, generated.authority, mode=0o644)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
