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


objects = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
)


@given(objects)
def test_signatures_are_signedjson_s(value: dict[str, Any]) -> None:
    """Bit for bit what Synapse's own library makes, and accepted by it."""
    value = {**value, "unsigned": {"age": 1}, "signatures": {"other": {"ed25519:0": "kept"}}}
    ours = signatures.sign(value, "a.example", "ed25519:1", KEY)
    theirs_key = signedjson.key.decode_signing_key_base64(
        "ed25519", "1", signatures.encode_base64(bytes(KEY))
    )
    copy = {**value, "signatures": {"other": {"ed25519:0": "kept"}}}
    assert ours == signedjson.sign.sign_json(copy, "a.example", theirs_key)
    signedjson.sign.verify_signed_json(ours, "a.example", signedjson.key.get_verify_key(theirs_key))


def test_signing_changes_nothing_that_was_given() -> None:
    """The object is copied; signatures of others and by our other keys stay."""
    value = {"a": 1, "signatures": {"a.example": {"ed25519:old": "x"}, "b.example": {"ed25519:b": "y"}}}
    signed = signatures.sign(value, "a.example", "ed25519:1", KEY)
    assert value["signatures"] == {"a.example": {"ed25519:old": "x"}, "b.example": {"ed25519:b": "y"}}
    assert signed["signatures"]["b.example"] == {"ed25519:b": "y"}
    assert set(signed["signatures"]["a.example"]) == {"ed25519:old", "ed25519:1"}


def test_what_has_no_canonical_form_is_not_signed() -> None:
    """A float cannot be signed."""
    with pytest.raises(NotCanonical):
        signatures.sign({"a": 1.5}, "a.example", "ed25519:1", KEY)


def check(value: dict[str, Any], keys: dict[str, VerifyKey], **when: Any) -> signatures.Verification:
    return signatures.verify(
        signatures.bytes_to_sign(value), value.get("signatures"), "a.example", keys, **when
    )


def test_a_signature_is_checked_against_what_was_signed() -> None:
    """`signatures` and `unsigned` may change afterwards, anything else may not."""
    signed = signatures.sign({"a": 1}, "a.example", "ed25519:1", KEY)
    keys = {"ed25519:1": public(KEY)}
    assert check(signed, keys) == Verified()
    assert check({**signed, "unsigned": {"age": 5}}, keys) == Verified()
    assert check({**signed, "a": 2}, keys) == BadSignature("a.example", "ed25519:1")
    assert check({**signed, "b": 1}, keys) == BadSignature("a.example", "ed25519:1")


def test_unknown_keys_are_skipped_and_known_ones_must_all_hold() -> None:
    """v1.19: a signature by an unknown key says nothing, for good or ill; among the known none may be
    wrong."""
    signed = signatures.sign({"a": 1}, "a.example", "ed25519:1", KEY)
    both = signatures.with_signature(signed, "a.example", "ed25519:policy_server", "rubbish")
    known = {"ed25519:1": public(KEY)}
    assert check(both, known) == Verified()
    assert check(both, {**known, "ed25519:policy_server": public(OTHER_KEY)}) == BadSignature(
        "a.example", "ed25519:policy_server"
    )
    assert check(both, {}) == NeedKeys({"a.example": ("ed25519:1", "ed25519:policy_server")})
    assert check(both, {"ed25519:2": public(KEY)}) == NeedKeys(
        {"a.example": ("ed25519:1", "ed25519:policy_server")}
    )


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
def test_no_signature(made: Any) -> None:
    """Whatever `signatures` holds that is not an ed25519 signature of the server, the server has not
    signed."""
    assert signatures.verify(b"{}", made, "a.example", {"ed25519:1": public(KEY)}) == NotSigned("a.example")


@pytest.mark.parametrize(
    "made", [None, 3, "", "abc", "é", "A" * 86, "A" * 85, "!" * 86, "A" * 10_000, {}, []]
)
def test_rubbish_for_a_signature(made: Any) -> None:
    """What cannot be a signature is a wrong one, and raises nothing."""
    result = signatures.verify(
        b"{}", {"a.example": {"ed25519:1": made}}, "a.example", {"ed25519:1": public(KEY)}
    )
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
    """Padding is not written and may be read; either alphabet is read."""
    assert signatures.decode_base64(text) == decoded


@given(st.binary(max_size=40))
def test_base64_there_and_back(data: bytes) -> None:
    """Both forms come back as the bytes they were."""
    for text in (signatures.encode_base64(data), signatures.encode_url_safe_base64(data)):
        assert "=" not in text
        assert signatures.decode_base64(text) == data


def test_published_keys() -> None:
    """A verify key is 32 bytes of base64."""
    published = signatures.encode_base64(bytes(KEY.verify_key))
    assert signatures.verify_key(published, 5) == VerifyKey(bytes(KEY.verify_key), 5)
    for rubbish in (None, 3, "", "abc", published + "AA", published[:-1] + "é"):
        assert signatures.verify_key(rubbish, 5) is None
