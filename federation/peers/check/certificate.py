"""Reads certificates, and explains OpenSSL's verification errors to operators."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

MAX_NAMES_SHOWN: Final = 8
"""Names of a certificate that are shown."""
_MAX_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate. Times are milliseconds since 1970."""

    names: tuple[str, ...]
    issuer: str
    begins: int
    ends: int
    is_self_signed: bool

    def names_shown(self) -> str:
        more = len(self.names) - MAX_NAMES_SHOWN
        return ", ".join(self.names[:MAX_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "") or "no name"


def read_certificate(der: bytes) -> Certificate | None:
    """Parse a certificate. None if this library cannot parse it; OpenSSL accepts some that it cannot."""
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
    """The subject alternative names. The common name is ignored: RFC 9110, 4.3.4."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    hosts = names.get_values_for_type(x509.DNSName)
    return (*hosts, *(str(address) for address in names.get_values_for_type(x509.IPAddress)))


def _name(name: x509.Name) -> str:
    """The common name and the organisation, as far as it has them."""
    parts = [
        str(attribute.value)
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
        for attribute in name.get_attributes_for_oid(oid)[:1]
    ]
    return ", ".join(parts)[:_MAX_LENGTH] or "an authority without a name"


# OpenSSL's numbers, from openssl-verification-options(1) and x509_vfy.h.
_NOT_YET: Final = 9
_EXPIRED: Final = 10
_SELF_SIGNED: Final = 18
_UNKNOWN_ROOT: Final = 19
_NO_ISSUER: Final = frozenset({2, 20, 21})
UNTRUSTED: Final = _NO_ISSUER | {_SELF_SIGNED, _UNKNOWN_ROOT}
"""The certificate may be valid otherwise; OpenSSL stops at these errors."""
_WRONG_NAME: Final = frozenset({62, 64})

_TRUST: Final = (
    'Every server that should accept it must trust its authority: in Palaver, authority = "…/ca.pem" in a'
    " [[peers]] block, or federation.authorities for all."
)
_FIXED_BY_RENEWAL: Final[Mapping[int, str]] = {_EXPIRED: "has expired", 23: "was revoked"}


def explain_certificate_error(code: int, words: str, name: str, certificate: Certificate | None) -> tuple[str, str]:
    """What is wrong with a certificate that should be valid for `name`, and what to do about it."""
    if code in _WRONG_NAME:
        others = f", but for {certificate.names_shown()}" if certificate is not None else ""
        advice = (
            f"It needs one with {name} in its subjectAltName. That is the name for which connections are made: a"
            " .well-known can change it, SRV records cannot."
        )
        return f"has a certificate that is not for {name}{others}", advice
    if code in _FIXED_BY_RENEWAL:
        text = f"has a certificate that {_FIXED_BY_RENEWAL[code]}"
        return text, "Renew it, and let the server load the new one."
    if code == _NOT_YET:
        text = "has a certificate that is not valid yet"
        return text, "Compare the clocks of both machines; otherwise wait until it is valid."
    issuer = f" by {certificate.issuer}" if certificate is not None else ""
    if code in (_SELF_SIGNED, _UNKNOWN_ROOT) or (certificate is not None and certificate.is_self_signed):
        return f"has a certificate that is self-signed or signed by a private authority{issuer}", _TRUST
    if code in _NO_ISSUER:
        advice = (
            "If that authority is a public one, the server does not send the intermediate certificates: it must"
            f" send the full chain. {_TRUST}"
        )
        return f"has a certificate{issuer}, which is not signed by an authority that this node trusts", advice
    return f"has a certificate that is not valid: {words.rstrip('.')}", "It needs another certificate."
