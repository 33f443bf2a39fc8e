"""Local signing keys: formats, rotation, and the key document."""

import io

import pytest
import signedjson.key
import signedjson.sign
from hypothesis import given
from hypothesis import strategies as st

from federation.keys.server_keys import (
    VALIDITY_MS,
    BadKeyFile,
    LocalKeys,
    OldLocalKey,
    describe,
    format_local_key,
    format_old_keys,
    key_from_seed,
    make_key_document,
    parse_local_key,
    parse_old_keys,
    renewal_time,
    rotate,
)

NOW = 1_700_000_000_000
ONE = key_from_seed("a_1", b"\x01" * 32)
TWO = key_from_seed("a_2", b"\x02" * 32)


def test_the_document_is_signed_by_the_key_that_it_publishes() -> None:
    """Verified by an independent implementation."""
    document = make_key_document("localhost:7676", LocalKeys(ONE), NOW)
    key = signedjson.key.decode_verify_key_base64("ed25519", "a_1", document["verify_keys"]["ed25519:a_1"]["key"])
    signedjson.sign.verify_signed_json(document, "localhost:7676", key)


def test_the_document_is_valid_for_a_day_and_renewed_at_half() -> None:
    """A served document always has at least half of its validity left."""
    document = make_key_document("localhost:7676", LocalKeys(ONE), NOW)
    assert document["valid_until_ts"] == NOW + VALIDITY_MS
    assert renewal_time(document) == NOW + VALIDITY_MS // 2


def test_rotation_keeps_the_old_key_with_its_expiry() -> None:
    """Events signed before its expiry stay valid, so its public key stays published."""
    keys = rotate(LocalKeys(ONE), TWO, NOW)
    document = make_key_document("localhost:7676", keys, NOW)
    assert set(document["verify_keys"]) == {"ed25519:a_2"}
    assert document["old_verify_keys"] == {"ed25519:a_1": {"key": ONE.public, "expired_ts": NOW}}


def test_a_version_identifies_one_key_forever() -> None:
    """Reusing a version would make signatures of the previous key unverifiable."""
    with pytest.raises(AssertionError):
        rotate(rotate(LocalKeys(ONE), TWO, NOW), key_from_seed("a_1", b"\x03" * 32), NOW)


def test_the_file_formats_are_those_of_signedjson() -> None:
    """An operator may move keys between this node and other servers."""
    [theirs] = signedjson.key.read_signing_keys(io.StringIO(format_local_key(ONE)))
    assert (theirs.version, bytes(theirs)) == ("a_1", b"\x01" * 32)
    [old] = signedjson.key.read_old_signing_keys(io.StringIO(format_old_keys([OldLocalKey("a_1", ONE.public, NOW)])))
    assert (old.version, old.expired, bytes(old)) == ("a_1", NOW, bytes(ONE.signing_key.verify_key))


@given(st.binary(min_size=32, max_size=32), st.from_regex(r"\A\w{1,20}\Z", fullmatch=True).filter(str.isascii))
def test_a_key_file_round_trips(seed: bytes, version: str) -> None:
    read = parse_local_key(format_local_key(key_from_seed(version, seed)))
    assert (read.version, bytes(read.signing_key)) == (version, seed)


def test_a_file_of_old_keys_round_trips() -> None:
    """In order, with their expiry."""
    old = (OldLocalKey("a_1", ONE.public, 1), OldLocalKey("a_2", TWO.public, 2))
    assert parse_old_keys(format_old_keys(old)) == old


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519 a_1\n",
        "rsa a_1 AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n",
        "ed25519 a:1 AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n",
        "ed25519 a_1 AQEB\n",
        "ed25519 a_1 not base64!\n",
        "ed25519 a_1 §§§§\n",
        format_local_key(ONE) + format_local_key(TWO),
    ],
)
def test_an_invalid_key_file_is_reported_without_its_content(text: str) -> None:
    """The error may be logged."""
    with pytest.raises(BadKeyFile) as caught:
        parse_local_key(text)
    assert all(word not in str(caught.value) for word in text.split() if word != "ed25519")


def test_an_invalid_list_of_old_keys_is_reported() -> None:
    """An expiry must be a number."""
    with pytest.raises(BadKeyFile):
        parse_old_keys(f"ed25519 a_1 soon {ONE.public}\n")


def test_private_keys_are_never_shown() -> None:
    """Neither a repr in a traceback nor the output of the command line contains the seed."""
    keys = rotate(LocalKeys(ONE), TWO, NOW)
    shown = repr(keys) + repr(describe(keys)) + repr(make_key_document("x", keys, NOW))
    for key in (ONE, TWO):
        assert format_local_key(key).split()[2] not in shown
