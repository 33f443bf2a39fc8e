"""Signing JSON (specification, appendix "Signing JSON")."""

from typing import Any

import pytest
import signedjson.key
import signedjson.sign
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from federation.matrix import signatures
from federation.matrix.canonical_json import NotCanonical
from federation.matrix.signatures import BadSignature, NeedKeys, NotSigned, Verified, VerifyKey

KEY = SigningKey(bytes(32))
OTHER_KEY = SigningKey(bytes([1]) * 32)
FOREVER = 2**53
DAY = 24 * 3600 * 1000


def public(key: SigningKey, valid_until_ts: int = FOREVER) -> VerifyKey:
    return VerifyKey(bytes(key.verify_key), valid_until_ts)


objects = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5))


@given(objects)
def test_signatures_equal_those_of_signedjson(value: dict[str, Any]) -> None:
    """The library that Synapse uses makes the same bytes, and accepts these signatures."""
    value = {**value, "unsigned": {"age": 1}, "signatures": {"other": {"ed25519:0": "kept"}}}
    ours = signatures.sign(value, "a.example", "ed25519:1", KEY)
    theirs_key = signedjson.key.decode_signing_key_base64("ed25519", "1", signatures.encode_base64(bytes(KEY)))
    copy = {**value, "signatures": {"other": {"ed25519:0": "kept"}}}
    assert ours == signedjson.sign.sign_json(copy, "a.example", theirs_key)
    signedjson.sign.verify_signed_json(ours, "a.example", signedjson.key.get_verify_key(theirs_key))


def test_signing_copies_the_object() -> None:
    """Signatures of other servers and other keys stay."""
    value = {"a": 1, "signatures": {"a.example": {"ed25519:old": "x"}, "b.example": {"ed25519:b": "y"}}}
    signed = signatures.sign(value, "a.example", "ed25519:1", KEY)
    assert value["signatures"] == {"a.example": {"ed25519:old": "x"}, "b.example": {"ed25519:b": "y"}}
    assert signed["signatures"]["b.example"] == {"ed25519:b": "y"}
    assert set(signed["signatures"]["a.example"]) == {"ed25519:old", "ed25519:1"}


def test_a_value_without_canonical_form_is_not_signed() -> None:
    """For example a float."""
    with pytest.raises(NotCanonical):
        signatures.sign({"a": 1.5}, "a.example", "ed25519:1", KEY)


def check(value: dict[str, Any], keys: dict[str, VerifyKey], **when: Any) -> signatures.Verification:
    return signatures.verify(signatures.bytes_to_sign(value), value.get("signatures"), "a.example", keys, **when)


def test_a_signature_covers_the_object() -> None:
    """`signatures` and `unsigned` may change afterwards, nothing else."""
    signed = signatures.sign({"a": 1}, "a.example", "ed25519:1", KEY)
    keys = {"ed25519:1": public(KEY)}
    assert check(signed, keys) == Verified()
    assert check({**signed, "unsigned": {"age": 5}}, keys) == Verified()
    assert check({**signed, "a": 2}, keys) == BadSignature("a.example", "ed25519:1")
    assert check({**signed, "b": 1}, keys) == BadSignature("a.example", "ed25519:1")


def test_all_signatures_by_known_keys_must_be_valid() -> None:
    """v1.19: signatures by unknown keys are skipped."""
    signed = signatures.sign({"a": 1}, "a.example", "ed25519:1", KEY)
    both = signatures.with_signature(signed, "a.example", "ed25519:policy_server", "rubbish")
    known = {"ed25519:1": public(KEY)}
    assert check(both, known) == Verified()
    assert check(both, {**known, "ed25519:policy_server": public(OTHER_KEY)}) == BadSignature(
        "a.example", "ed25519:policy_server"
    )
    assert check(both, {}) == NeedKeys({"a.example": ("ed25519:1", "ed25519:policy_server")})
    assert check(both, {"ed25519:2": public(KEY)}) == NeedKeys({"a.example": ("ed25519:1", "ed25519:policy_server")})


@pytest.mark.parametrize(
    "made",
    [
        None,
        3,
        "rubbish",
        {},
        [],
        {"a.example": None},
        {"a.example": []},
        {"a.example": {}},
        {"b.example": {"ed25519:1": "x"}},
        {"a.example": {"rsa:1": "x"}},
    ],
)
def test_a_missing_signature(made: Any) -> None:
    """Also if `signatures` has anything but an ed25519 signature of the server."""
    assert signatures.verify(b"{}", made, "a.example", {"ed25519:1": public(KEY)}) == NotSigned("a.example")


@pytest.mark.parametrize("made", [None, 3, "", "abc", "é", "A" * 86, "A" * 85, "!" * 86, "A" * 10_000, {}, []])
def test_a_malformed_signature_is_invalid(made: Any) -> None:
    """And raises nothing."""
    result = signatures.verify(b"{}", {"a.example": {"ed25519:1": made}}, "a.example", {"ed25519:1": public(KEY)})
    assert result == BadSignature("a.example", "ed25519:1")


def test_a_key_must_have_been_valid_when_the_event_was_sent() -> None:
    """Room version 5: the lesser of `valid_until_ts` and now + 7 days must reach `origin_server_ts`."""
    now = 1_000 * DAY
    assert VerifyKey(b"", now).is_valid_at(now, now)
    assert not VerifyKey(b"", now - 1).is_valid_at(now, now)
    assert VerifyKey(b"", FOREVER).is_valid_at(now + 7 * DAY, now)
    assert not VerifyKey(b"", FOREVER).is_valid_at(now + 7 * DAY + 1, now)

    signed = signatures.sign({"a": 1}, "a.example", "ed25519:1", KEY)
    old = {"ed25519:1": public(KEY, now - DAY)}
    assert check(signed, old) == Verified()
    assert check(signed, old, signed_at=now - DAY, now_ms=now) == Verified()
    assert check(signed, old, signed_at=now, now_ms=now) == NeedKeys({"a.example": ("ed25519:1",)})


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("", b""),
        ("Zg", b"f"),
        ("Zg==", b"f"),
        ("Zm9v", b"foo"),
        ("_-8", b"\xff\xef"),
        ("/+8", b"\xff\xef"),
        ("/+8=", b"\xff\xef"),
        ("Z", None),
        ("Zm 9v", None),
        ("Zg==Zg==", None),
        ("é", None),
        (None, None),
        (5, None),
    ],
)
def test_unpadded_base64(text: object, decoded: bytes | None) -> None:
    """Padding is not written, but accepted, as are both alphabets."""
    assert signatures.decode_base64(text) == decoded


@given(st.binary(max_size=40))
def test_base64_round_trips(data: bytes) -> None:
    """In both forms."""
    for text in (signatures.encode_base64(data), signatures.encode_url_safe_base64(data)):
        assert "=" not in text
        assert signatures.decode_base64(text) == data


def test_verify_keys() -> None:
    """A verify key is base64 of 32 bytes."""
    published = signatures.encode_base64(bytes(KEY.verify_key))
    assert signatures.verify_key(published, 5) == VerifyKey(bytes(KEY.verify_key), 5)
    for rubbish in (None, 3, "", "abc", published + "AA", published[:-1] + "é"):
        assert signatures.verify_key(rubbish, 5) is None
