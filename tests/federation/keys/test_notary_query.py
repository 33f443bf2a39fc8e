"""Parsing key queries and building responses."""

import json
from typing import Any

import pytest

from federation.keys.key_documents import DIRECT, KeyDocument, NotaryKeys, ServerKey, parse_key_document
from federation.keys.notary_query import (
    MAX_KEYS,
    MAX_RESPONSE_BYTES,
    MAX_SERVERS,
    KeyQuery,
    encode_response,
    is_fresh,
    parse_many,
    parse_single,
    sign_documents,
)
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError
from federation.matrix.signatures import VerifyKey
from tests.support.server_keys import DAY, NOW, key, key_document, public

THEIRS, OURS = key("1"), key("own")


def test_without_a_time_keys_must_be_valid_now() -> None:
    """ "If not supplied, the current time as determined by the notary server is used." """
    assert parse_single("a.example", None, NOW) == KeyQuery("a.example", (), NOW)
    assert parse_single("a.example:8448", "5", NOW) == KeyQuery("a.example:8448", (), 5)
    assert parse_single("a.example", str(NOW + 5), NOW).valid_until == NOW + 5


@pytest.mark.parametrize(
    ("server", "minimum"),
    [("a b", None), ("", None), ("a.example", "-1"), ("a.example", "x"), ("a.example", "9" * 17), ("a.example", "")],
)
def test_invalid_queries_are_refused(server: str, minimum: str | None) -> None:
    """400 M_INVALID_PARAM."""
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        parse_single(server, minimum, NOW)


def test_the_latest_time_of_a_server_counts() -> None:
    """ "The notary server may return multiple keys regardless of the Key IDs given." """
    body = {
        "server_keys": {
            "a.example": {
                "ed25519:1": {"minimum_valid_until_ts": NOW + 7},
                "ed25519:2": {"minimum_valid_until_ts": 3},
                "ed25519:3": {},
            },
            "b.example": {},
            "c.example": {"ed25519:1": {"minimum_valid_until_ts": 3}},
        }
    }
    assert parse_many(body, NOW) == (
        KeyQuery("a.example", ("ed25519:1", "ed25519:2", "ed25519:3"), NOW + 7),
        KeyQuery("b.example", (), NOW),
        KeyQuery("c.example", ("ed25519:1",), 3),
    )
    assert parse_many({"server_keys": {}}, NOW) == ()


def test_unknown_algorithms_are_ignored() -> None:
    """And invalid key ids."""
    body = {"server_keys": {"a.example": {"curve25519:1": {}, "x\0": {}, "ed25519:": {}, "ed25519:1": {}}}}
    assert parse_many(body, NOW) == (KeyQuery("a.example", ("ed25519:1",), NOW),)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"server_keys": []},
        {"server_keys": {"a.example": []}},
        {"server_keys": {"a.example": {"ed25519:1": 5}}},
        {"server_keys": {"a.example": {"ed25519:1": {"minimum_valid_until_ts": "5"}}}},
        {"server_keys": {"a.example": {"ed25519:1": {"minimum_valid_until_ts": True}}}},
        {"server_keys": {"a.example": {"ed25519:1": {"minimum_valid_until_ts": -1}}}},
        {"server_keys": {"a.example": {"ed25519:1": {"minimum_valid_until_ts": 2**53}}}},
    ],
)
def test_a_malformed_query_is_refused(body: Any) -> None:
    """400 M_BAD_JSON."""
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        parse_many(body, NOW)


def test_a_too_large_query_is_refused() -> None:
    """Each server costs a request, and each key a database query."""
    servers = {f"s{number}.example": {} for number in range(MAX_SERVERS)}
    keys = {f"ed25519:{number}": {} for number in range(MAX_KEYS)}
    assert len(parse_many({"server_keys": servers}, NOW)) == MAX_SERVERS
    assert len(parse_many({"server_keys": {"a.example": keys}}, NOW)[0].key_ids) == MAX_KEYS
    for asked in ({**servers, "a.example": {}}, {"a.example": keys, "b.example": {"ed25519:x": {}}}):
        with pytest.raises(MatrixError, match="400 M_TOO_LARGE"):
            parse_many({"server_keys": asked}, NOW)
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        parse_many({"server_keys": {"a b": {}}}, NOW)


def stored(until: int = NOW + DAY, *, fetched: int = NOW, expired: int | None = None) -> ServerKey:
    return ServerKey("a.example", "ed25519:1", public(THEIRS), until, expired, fetched, DIRECT)


ONE, ALL = KeyQuery("a.example", ("ed25519:1",), NOW), KeyQuery("a.example", (), NOW)


@pytest.mark.parametrize(
    ("known", "wanted", "fresh"),
    [
        ({}, ALL, False),
        ({}, ONE, False),
        ({"ed25519:1": stored()}, ALL, True),
        ({"ed25519:1": stored()}, ONE, True),
        ({"ed25519:2": stored()}, ONE, False),
        ({"ed25519:1": stored()}, KeyQuery("a.example", ("ed25519:1", "ed25519:2"), NOW), False),
        # A millisecond after half of its validity.
        ({"ed25519:1": stored(NOW + 10, fetched=NOW - 10)}, ONE, True),
        ({"ed25519:1": stored(NOW + 10, fetched=NOW - 12)}, ONE, False),
        ({"ed25519:1": stored(NOW + 10, fetched=NOW - 12)}, ALL, False),
        # Not valid for as long as requested.
        ({"ed25519:1": stored()}, KeyQuery("a.example", (), NOW + DAY), True),
        ({"ed25519:1": stored()}, KeyQuery("a.example", (), NOW + DAY + 1), False),
        ({"ed25519:1": stored()}, KeyQuery("a.example", ("ed25519:1",), NOW + DAY + 1), False),
        # An old key does not change, and is not a current key.
        ({"ed25519:1": stored(NOW - 5, expired=NOW - 10)}, ONE, True),
        ({"ed25519:1": stored(NOW + DAY, expired=NOW - 10)}, ALL, False),
        ({"ed25519:1": stored(NOW - 5, fetched=NOW - DAY), "ed25519:2": stored()}, ALL, True),
    ],
)
def test_which_keys_are_returned_without_a_fetch(known: dict[str, ServerKey], wanted: KeyQuery, fresh: bool) -> None:
    """ "Intermediate notary servers should cache a response for half of its lifetime to avoid serving a stale
    response"; and only keys that satisfy the query."""
    assert is_fresh(known, wanted, NOW) is fresh


def test_both_signatures_are_valid() -> None:
    """The signature of the server stays and the notary's is added."""
    document = encode(key_document("a.example", THEIRS))
    [made] = sign_documents([document], "us.example", OURS)
    content = json.loads(made)
    assert set(content["signatures"]) == {"a.example", "us.example"}
    us = NotaryKeys("us.example", {OURS.key_id: VerifyKey(public(OURS), 0)})
    found = parse_key_document(content, "a.example", NOW, us)
    assert isinstance(found, KeyDocument)
    assert found.document == document
    [again] = sign_documents([made], "us.example", OURS)
    assert again == made


def test_documents_beyond_the_size_limit_are_left_out() -> None:
    """As if their servers were offline; smaller ones after them are included."""
    large = encode(key_document("a.example", THEIRS, more={"much": "x" * MAX_RESPONSE_BYTES}))
    small = encode(key_document("b.example", THEIRS))
    [made] = sign_documents([large, small], "us.example", OURS)
    assert json.loads(made)["server_name"] == "b.example"
    many = sign_documents([small] * (MAX_RESPONSE_BYTES // len(small) + 5), "us.example", OURS)
    assert len(many) == MAX_RESPONSE_BYTES // len(small)


def test_a_response_is_json() -> None:
    """Empty without documents."""
    assert json.loads(encode_response([])) == {"server_keys": []}
    assert json.loads(encode_response([b'{"a":1}', b'{"b":2}'])) == {"server_keys": [{"a": 1}, {"b": 2}]}
