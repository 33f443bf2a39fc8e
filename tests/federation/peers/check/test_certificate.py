"""Certificates and their errors."""

from datetime import UTC, datetime, timedelta

import pytest

from federation.peers.check.certificate import MAX_NAMES_SHOWN, Certificate, explain_certificate_error, read_certificate
from tests.support.tls import Authority


def test_a_certificate_is_read() -> None:
    """Its names, its issuer, and its validity."""
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    issued = Authority("Somebody").issue("a.test", "127.0.0.1", begins=begins, ends=begins + timedelta(days=90))
    certificate = read_certificate(issued.der)
    assert certificate is not None
    assert set(certificate.names) == {"a.test", "127.0.0.1"}
    assert (certificate.issuer, certificate.is_self_signed) == ("Somebody", False)
    assert certificate.begins == begins.timestamp() * 1000
    assert certificate.ends - certificate.begins == 90 * 24 * 3600 * 1000
    itself = read_certificate(Authority("Somebody").issued.der)
    assert itself is not None
    assert itself.is_self_signed
    assert read_certificate(b"junk") is None


CERTIFICATE = Certificate(("other.test",), "Somebody", 0, 1, False)


@pytest.mark.parametrize(
    ("code", "certificate", "text", "advice"),
    [
        (62, CERTIFICATE, "not for a.test, but for other.test", "subjectAltName"),
        (64, None, "not for a.test", "subjectAltName"),
        (10, CERTIFICATE, "has expired", "Renew"),
        (23, CERTIFICATE, "was revoked", "Renew"),
        (9, CERTIFICATE, "is not valid yet", "clocks"),
        (18, CERTIFICATE, "self-signed", "[[peers]]"),
        (19, CERTIFICATE, "private authority by Somebody", "[[peers]]"),
        (20, Certificate((), "Itself", 0, 1, True), "self-signed", "[[peers]]"),
        (20, CERTIFICATE, "by Somebody, which is not signed by an authority", "full chain"),
        (21, None, "not signed by an authority", "full chain"),
        (99, CERTIFICATE, "is not valid: odd", "another certificate"),
    ],
)
def test_each_error_is_explained(code: int, certificate: Certificate | None, text: str, advice: str) -> None:
    """By OpenSSL's number: what is wrong, and what to do about it."""
    problem, fix = explain_certificate_error(code, "odd.", "a.test", certificate)
    assert text in problem
    assert advice in fix
    assert fix.endswith(".")


def test_the_names_shown_are_limited() -> None:
    """Some certificates have hundreds of names, some have none."""
    names = tuple(f"{number}.test" for number in range(MAX_NAMES_SHOWN + 3))
    assert Certificate(names, "", 0, 0, False).names_shown().endswith("and 3 more")
    assert Certificate((), "", 0, 0, False).names_shown() == "no name"
