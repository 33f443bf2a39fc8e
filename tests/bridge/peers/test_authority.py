"""CA certificates of a peer."""

import pytest

from bridge.peers.authority import MAX_BYTES, read_authority
from storage.errors import LocalError
from tests.support.tls import Authority


def test_only_certificates_are_kept() -> None:
    """Files often contain descriptions too."""
    first, second = (Authority(name).pem.decode() for name in ("First", "Second"))
    read = read_authority(f"Our authorities\n\n{first}\nsubject=somebody\r\n{second}\nthe end")
    assert read == first + second
    assert read_authority(first.replace("\n", "\r\n")) == first.replace("\n", "\r\n").rstrip() + "\n"


def test_private_key_is_refused() -> None:
    """Without showing it."""
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
def test_invalid_certificates_are_refused(text: str, sentence: str) -> None:
    """With advice."""
    read = read_authority(text)
    assert isinstance(read, LocalError)
    assert sentence in read.problem
    assert "PEM" in read.advice
