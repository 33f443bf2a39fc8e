"""What a certificate says, and what OpenSSL says of it in the words of whoever has to mend it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

MOST_NAMES: Final = 8
"""That are shown."""
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Certificate:
    """Times are milliseconds since 1970."""

    names: tuple[str, ...]
    issuer: str
    begins: int
    ends: int
    is_self_signed: bool

    def names_shown(self) -> str:
        more = len(self.names) - MOST_NAMES
        return ", ".join(self.names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "") or "nobody"


def read_certificate(der: bytes) -> Certificate | None:
    """None for what this library does not read; OpenSSL reads some that it does not."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        return Certificate(
            _names(certificate),
            _name(certificate.issuer),
            int(certificate.not_valid_before_utc.timestamp() * 1000),
            int(certificate.not_valid_after_utc.timestamp() * 1000),
            certificate.issuer == certificate.subject,
        )
    except ValueError:
        return None


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    """The common name does not count any more: RFC 9110, 4.3.4."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    hosts = names.get_values_for_type(x509.DNSName)
    return (*hosts, *(str(address) for address in names.get_values_for_type(x509.IPAddress)))


def _name(name: x509.Name) -> str:
    """The organisation with the common name, as far as it has them."""
    parts = [
        str(attribute.value)
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
        for attribute in name.get_attributes_for_oid(oid)[:1]
    ]
    return ", ".join(parts)[:_LONGEST] or "an authority without a name"


# OpenSSL's numbers, from openssl-verification-options(1) and x509_vfy.h.
_NOT_YET: Final = 9
_EXPIRED: Final = 10
_SELF_SIGNED: Final = 18
_UNKNOWN_ROOT: Final = 19
_NO_ISSUER: Final = frozenset({2, 20, 21})
UNVOUCHED: Final = _NO_ISSUER | {_SELF_SIGNED, _UNKNOWN_ROOT}
"""Nothing else need be wrong with such a certificate; OpenSSL looks no further."""
_WRONG_NAME: Final = frozenset({62, 64})

_TRUST: Final = (
    'Every server that is to believe it must know its authority: in Palaver, authority = "…/ca.pem" in a'
    " [[peers]] block, or federation.authorities for all."
)
_MENDED_BY_RENEWAL: Final[Mapping[int, str]] = {_EXPIRED: "has expired", 23: "was revoked"}


def what_is_wrong(code: int, words: str, name: str, certificate: Certificate | None) -> tuple[str, str]:
    """What is wrong with a certificate that is to be one for `name`, and what to do about it."""
    if code in _WRONG_NAME:
        named = f", but for {certificate.names_shown()}" if certificate is not None else ""
        advice = (
            f"It needs one whose subjectAltName holds {name}: the name that connections are made for, which a"
            " .well-known may change and SRV records do not."
        )
        return f"shows a certificate that is not for {name}{named}", advice
    if code in _MENDED_BY_RENEWAL:
        text = f"shows a certificate that {_MENDED_BY_RENEWAL[code]}"
        return text, "It must be renewed, and the server told to read it."
    if code == _NOT_YET:
        text = "shows a certificate that is not valid yet"
        return text, "Compare the clocks of both machines; otherwise wait until it is."
    issuer = f" by {certificate.issuer}" if certificate is not None else ""
    if code in (_SELF_SIGNED, _UNKNOWN_ROOT) or (certificate is not None and certificate.is_self_signed):
        return f"shows a certificate that was signed by itself or by an authority of its own{issuer}", _TRUST
    if code in _NO_ISSUER:
        advice = (
            "If that authority is a public one, the server leaves out the certificates between the authority"
            f" and its own: it must send the full chain. {_TRUST}"
        )
        return f"shows a certificate{issuer}, which nobody vouches for whom this node believes", advice
    return f"shows a certificate that is not valid: {words.rstrip('.')}", "It needs another certificate."
