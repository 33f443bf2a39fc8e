"""Certificates for tests: an authority, and what it signs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key. `chain` has the intermediate authorities, without the root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in (self.certificate, *self.chain))

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write `name.pem` and `name.key`."""
        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        certificate.write_bytes(self.pem)
        key.write_bytes(self.key_pem)
        return certificate, key


class Authority:
    """Signs any certificate that a test needs, including expired and malformed ones."""

    def __init__(self, name: str = "Test authority", parent: "Authority | None" = None) -> None:
        self.issued: Issued = _issue(name, (), (), parent.issued if parent else None, is_authority=True)
        self._chain: tuple[x509.Certificate, ...] = (self.issued.certificate, *parent._chain) if parent else ()

    @property
    def pem(self) -> bytes:
        return self.issued.certificate.public_bytes(Encoding.PEM)

    def write(self, directory: Path, name: str) -> Path:
        path = directory / f"{name}.pem"
        path.write_bytes(self.pem)
        return path

    def issue(
        self,
        *names: str,
        purposes: tuple[ObjectIdentifier, ...] = (SERVER, CLIENT),
        begins: datetime | None = None,
        ends: datetime | None = None,
    ) -> Issued:
        """Issue a leaf certificate for these hosts and addresses."""
        issued = _issue(names[0] if names else "leaf", names, purposes, self.issued, begins=begins, ends=ends)
        return Issued(issued.certificate, issued.key, self._chain)


def self_signed(*names: str) -> Issued:
    """Return a self-signed leaf certificate, which may sign nothing."""
    return _issue(names[0], names, (SERVER, CLIENT), None)


def signed_by_leaf(leaf: Issued, *names: str) -> Issued:
    """Return a certificate signed by a leaf, which must not be accepted."""
    issued = _issue(names[0], names, (SERVER, CLIENT), leaf)
    return Issued(issued.certificate, issued.key, (leaf.certificate,))


def _issue(
    common: str,
    names: tuple[str, ...],
    purposes: tuple[ObjectIdentifier, ...],
    issuer: Issued | None,
    *,
    is_authority: bool = False,
    begins: datetime | None = None,
    ends: datetime | None = None,
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins or now - DAY)
        .not_valid_after(ends or now + DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        # Python 3.13 is strict by default: it wants these three.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer.key if issuer else key).public_key()),
            critical=False,
        )
        .add_extension(_usage(signs_certificates=is_authority), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(purposes)), critical=False)
    return Issued(builder.sign(issuer.key if issuer else key, SHA256()), key)


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


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
