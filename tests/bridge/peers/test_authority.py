"""The certificates that a peer's own may come from."""

import pytest

from bridge.peers.authority import MAX_BYTES, read_authority
from storage.errors import LocalError
from tests.support.tls import Authority


def test_the_certificates_are_kept_and_nothing_else() -> None:
    """A file often tells what is in it."""
    first, second = (Authority(name).pem.decode() for name in ("First", "Second"))
    read = read_authority(f"Our authorities\n\n{first}\nsubject=somebody\r\n{second}\nthe end")
    assert read == first + second
    assert read_authority(first.replace("\n", "\r\n")) == first.replace("\n", "\r\n").rstrip() + "\n"


def test_a_private_key_is_refused() -> None:
    """Whoever names the wrong file learns it; what is in it is not told."""
    authority = Authority()
    key = authority.issued.key_pem.decode()
    read = read_authority(authority.pem.decode() + key)
    assert isinstance(read, LocalError)
    assert "private key" in read.problem
    assert key.splitlines()[1] not in str(read)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "contains no certificate"),
        ("-----BEGIN CERTIFICATE-----", "contains no certificate"),
        ("-----BEGIN CERTIFICATE-----\n<script>\n-----END CERTIFICATE-----", "contains no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "invalid certificate"),
        ("-----BEGIN CERTIFICATE-----\nA===A\n-----END CERTIFICATE-----", "invalid certificate"),
        ("x" * (MAX_BYTES + 1), "more than 64 KiB"),
        ("-----BEGIN CERTIFICATE-----" * 2_000, "contains no certificate"),
        ("\ud800\0", "contains no certificate"),
    ],
)
def test_what_is_no_certificate_is_refused(text: str, sentence: str) -> None:
    """With what to name instead."""
    read = read_authority(text)
    assert isinstance(read, LocalError)
    assert sentence in read.problem
    assert "PEM" in read.advice
