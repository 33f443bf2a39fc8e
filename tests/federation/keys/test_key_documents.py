"""Server-server API, "Publishing Keys": which keys of a document are accepted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.keys.key_documents import (
    DIRECT,
    MAX_KEYS,
    MAX_OLD_KEYS,
    InvalidKeyDocument,
    KeyDocument,
    NotaryKeys,
    ServerKey,
    merge_keys,
    parse_key_document,
)
from federation.matrix.canonical_json import decode
from federation.matrix.signatures import KEY_LIFETIME_CAP_MS, VerifyKey, sign
from tests.support.server_keys import DAY, NOW, key, key_document, old_key, public

FIRST, SECOND, OLD, NOTARY = key("1"), key("2"), key("old"), key("notary")
WEEK = KEY_LIFETIME_CAP_MS


def accepted(document: Any, notary: NotaryKeys | None = None) -> dict[str, ServerKey]:
    result = parse_key_document(document, "a.test", NOW, notary)
    assert isinstance(result, KeyDocument), result
    return {one.key_id: one for one in result.keys}


def problem(document: Any, notary: NotaryKeys | None = None) -> str:
    result = parse_key_document(document, "a.test", NOW, notary)
    assert isinstance(result, InvalidKeyDocument), result
    return result.problem


def test_a_valid_document() -> None:
    """Its keys, their validity, the old keys, and the source."""
    keys = accepted(key_document("a.test", FIRST, old=old_key(OLD, NOW - 5)))
    assert keys == {
        "ed25519:1": ServerKey("a.test", "ed25519:1", public(FIRST), NOW + DAY, None, NOW, DIRECT),
        "ed25519:old": ServerKey("a.test", "ed25519:old", public(OLD), NOW + DAY, NOW - 5, NOW, DIRECT),
    }


def test_the_signed_document_is_kept_for_other_servers() -> None:
    """A notary passes on what the server itself has signed, and nothing else."""
    document = key_document("a.test", FIRST, SECOND, signers=[FIRST], more={"org.example.more": [1]})
    strange = {"b.test": {"ed25519:1": "c2ln"}, "a.test": {**document["signatures"]["a.test"], "x": 1.5}}
    result = parse_key_document({**document, "signatures": strange, "unsigned": {"age": 1.5}}, "a.test", NOW)
    assert isinstance(result, KeyDocument)
    assert decode(result.document) == document
    assert isinstance(parse_key_document(decode(result.document), "a.test", NOW), KeyDocument)


def test_no_key_is_trusted_for_longer_than_a_week() -> None:
    """ "Servers MUST use the lesser of this field and 7 days into the future when determining if a key is
    valid." """
    assert accepted(key_document("a.test", FIRST, until=2**53 - 1))["ed25519:1"].valid_until_ts == NOW + WEEK


def test_an_expired_document_still_has_keys() -> None:
    """They verify events signed while they were valid."""
    keys = accepted(key_document("a.test", FIRST, until=NOW - DAY))
    assert keys["ed25519:1"].for_requests(NOW) is None
    assert keys["ed25519:1"].for_events() == VerifyKey(public(FIRST), NOW - DAY)


def test_old_keys_verify_events_only() -> None:
    """ "old_verify_keys which are only valid for signing events", until they expired."""
    old = accepted(key_document("a.test", FIRST, old=old_key(OLD, NOW + DAY)))["ed25519:old"]
    assert old.for_requests(NOW) is None
    assert old.for_events() == VerifyKey(public(OLD), NOW + DAY)


def test_a_current_key_verifies_requests_while_it_is_valid() -> None:
    """And not a millisecond longer."""
    current = accepted(key_document("a.test", FIRST))["ed25519:1"]
    assert current.for_requests(NOW + DAY) == VerifyKey(public(FIRST), NOW + DAY)
    assert current.for_requests(NOW + DAY + 1) is None


def test_a_key_that_did_not_sign_is_not_accepted() -> None:
    """The server may not have its private key. Keys that did sign are accepted."""
    assert set(accepted(key_document("a.test", FIRST, SECOND, signers=[FIRST]))) == {"ed25519:1"}
    assert set(accepted(key_document("a.test", FIRST, SECOND))) == {"ed25519:1", "ed25519:2"}


def test_invalid_keys_are_skipped() -> None:
    """Other algorithms, invalid key ids, and invalid keys."""
    good = key_document("a.test", FIRST)
    strange = {
        "curve25519:x": {"key": FIRST.public},
        "ed25519:a b": {"key": FIRST.public},
        "ed25519:\0": {"key": FIRST.public},
        "ed25519": {"key": FIRST.public},
        "ed25519:short": {"key": "AAAA"},
        "ed25519:none": {},
        "ed25519:list": [],
        **good["verify_keys"],
    }
    document = key_document("a.test", FIRST, more={"verify_keys": strange, "old_verify_keys": strange})
    assert set(accepted(document)) == {"ed25519:1"}


@pytest.mark.parametrize("expired", [None, -1, "1", 1.5, True, 2**60, 10**400])
def test_an_old_key_without_expiry_is_skipped(expired: Any) -> None:
    """It would verify everything forever."""
    old = {OLD.key_id: {"key": OLD.public, "expired_ts": expired}}
    document = key_document("a.test", FIRST)
    signed = {**document, "old_verify_keys": old}
    if isinstance(expired, float | int) and not isinstance(expired, bool) and expired in {1.5, 2**60, 10**400}:
        assert "canonical" in problem(signed)
    else:
        assert set(accepted(key_document("a.test", FIRST, old=old))) == {"ed25519:1"}


def test_a_key_in_both_lists_is_current() -> None:
    """The server signs with it, although it is also listed as old."""
    assert accepted(key_document("a.test", FIRST, old=old_key(FIRST, 5)))["ed25519:1"].expired_ts is None


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        {},
        key_document("b.test", FIRST),
        key_document("a.test"),
        key_document("a.test", FIRST, signers=[]),
        key_document("a.test", FIRST, signers=[SECOND]),
        key_document("a.test", FIRST, until=None),
        key_document("a.test", FIRST, until="soon"),
        key_document("a.test", FIRST, until=True),
        key_document("a.test", FIRST, until=-1),
        {**key_document("a.test", FIRST), "valid_until_ts": NOW + DAY + 1},
        {**key_document("a.test", FIRST), "valid_until_ts": 1.5},
        {**key_document("a.test", FIRST), "x": 1.5},
        {**key_document("a.test", FIRST), "signatures": None},
        {**key_document("a.test", FIRST), "signatures": {"a.test": []}},
        {**key_document("a.test", FIRST), "signatures": {"a.test": {"ed25519:1": 5}}},
        {**key_document("a.test", FIRST), "verify_keys": []},
        {**key_document("a.test", FIRST), "old_verify_keys": []},
        key_document("a.test", FIRST, key("1", "other"), signers=[FIRST]),
        key_document("a.test", *(key(str(at)) for at in range(MAX_KEYS + 1))),
        key_document("a.test", FIRST, old={f"ed25519:{at}": {} for at in range(MAX_OLD_KEYS + 1)}),
    ],
    ids=range(23),
)
def test_invalid_documents(document: Any) -> None:
    """Of another server, unsigned, signed by another key, modified after signing, or malformed."""
    assert problem(document)


def test_one_invalid_signature_invalidates_the_document() -> None:
    """Every signature by a listed key must be valid."""
    document = key_document("a.test", FIRST, SECOND)
    signatures = document["signatures"]["a.test"]
    signatures["ed25519:2"] = signatures["ed25519:1"]
    assert "not signed" in problem(document)


def by_notary(signer: Any = NOTARY) -> dict[str, Any]:
    return sign(key_document("a.test", FIRST), "notary.test", signer.key_id, signer.signing_key)


def test_a_notary_must_have_signed() -> None:
    """ "The notary server must sign the keys returned by the queried server": with a known key."""
    notary = NotaryKeys("notary.test", {NOTARY.key_id: VerifyKey(public(NOTARY), NOW + DAY)})
    assert accepted(by_notary(), notary)["ed25519:1"].source == "notary.test"
    assert "notary" in problem(key_document("a.test", FIRST), notary)
    assert "notary" in problem(by_notary(key("notary", "other")), notary)
    assert "notary" in problem(by_notary(), NotaryKeys("notary.test", {}))
    alone = key_document("a.test", FIRST, signers=[])
    signed = sign(alone, "notary.test", NOTARY.key_id, NOTARY.signing_key)
    assert "keys that it publishes" in problem(signed, notary)


def stored(one: Any = FIRST, until: int = NOW + DAY, expired: int | None = None, source: str = DIRECT) -> ServerKey:
    return ServerKey("a.test", "ed25519:1", public(one), until, expired, NOW, source)


OTHER = key("1", "other")


def test_a_new_key_is_stored() -> None:
    assert merge_keys(None, stored(), NOW) == stored()


def test_a_different_key_does_not_replace_a_valid_one() -> None:
    """A key id identifies one key forever."""
    assert merge_keys(stored(), stored(OTHER), NOW) == stored()
    assert merge_keys(stored(), stored(OTHER, expired=5), NOW + DAY) == stored()
    past = stored(expired=NOW - DAY)
    assert merge_keys(past, stored(OTHER), NOW) == past


def test_an_expired_key_may_be_replaced() -> None:
    """A server may be reinstalled under its old name with the old key id."""
    assert merge_keys(stored(), stored(OTHER, until=NOW + 3 * DAY), NOW + DAY + 1) == stored(OTHER, until=NOW + 3 * DAY)


def test_the_later_validity_counts() -> None:
    """Responses may arrive in any order, through caches and notaries."""
    later = stored(until=NOW + 2 * DAY, source="notary.test")
    assert merge_keys(stored(), later, NOW) == later
    assert merge_keys(later, stored(), NOW) == later


def test_an_old_key_stays_old() -> None:
    """Whatever an outdated response contains; its earliest expiry counts."""
    old = stored(expired=NOW - DAY)
    for before, after in ((old, stored()), (stored(), old), (old, stored(expired=NOW)), (stored(expired=NOW), old)):
        assert merge_keys(before, after, NOW).expired_ts == NOW - DAY


KEYS = st.builds(
    ServerKey,
    server=st.just("a.test"),
    key_id=st.just("ed25519:1"),
    public=st.sampled_from([public(FIRST), public(OTHER)]),
    valid_until_ts=st.integers(NOW - 2, NOW + 2),
    expired_ts=st.none() | st.integers(NOW - 2, NOW + 2),
    fetched_at=st.integers(NOW - 2, NOW),
    source=st.sampled_from([DIRECT, "notary.test"]),
)


@given(before=KEYS, after=KEYS)
def test_merging_is_monotonic(before: ServerKey, after: ServerKey) -> None:
    """Validity never decreases, old keys stay old, and merging again changes nothing."""
    merged = merge_keys(before, after, NOW)
    assert merge_keys(merged, after, NOW) == merged
    if before.for_requests(NOW) and not (after.public == before.public and after.expired_ts is not None):
        assert merged.for_requests(NOW)
        assert merged.public == before.public
        assert merged.valid_until_ts >= before.valid_until_ts
    if before.expired_ts is not None:
        assert merged.public == before.public
        assert merged.expired_ts is not None
        assert merged.expired_ts <= before.expired_ts


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    changes=st.dictionaries(
        st.sampled_from(["server_name", "valid_until_ts", "verify_keys", "old_verify_keys", "signatures"]),
        JSON,
        min_size=1,
    )
)
def test_no_document_raises(changes: dict[str, Any]) -> None:
    """Any input is accepted or invalid."""
    parse_key_document({**key_document("a.test", FIRST), **changes}, "a.test", NOW)
    notary = NotaryKeys("notary.test", {NOTARY.key_id: VerifyKey(public(NOTARY), NOW + DAY)})
    parse_key_document({**by_notary(), **changes}, "a.test", NOW, notary)
