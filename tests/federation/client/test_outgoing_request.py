"""Server-server API, "Request Authentication", as the requester."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.client.requests import authorization, bytes_to_sign, encode_body
from federation.keys.server_keys import key_from_seed
from federation.keys.x_matrix import parse, signed_object
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.signatures import Verified, VerifyKey, verify

KEY = key_from_seed("1", b"s" * 32)
JSON = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
)


@given(content=st.none() | JSON)
def test_the_specifications_object_is_signed(content: dict[str, Any] | None) -> None:
    """`content` is absent without a body, and present otherwise, `{}` included; the body is encoded only
    once."""
    made = bytes_to_sign("PUT", "/a?b=%21", "a.test", "b.test", encode_body(content))
    assert made == encode(signed_object("PUT", "/a?b=%21", "a.test", "b.test", content))


def test_the_header_verifies() -> None:
    """With the key that it names, over method, path, both servers and content."""
    header = parse(authorization("PUT", "/a", "a.test", "b.test", encode_body({"x": 1}), KEY))
    assert (header.origin, header.destination, header.key) == ("a.test", "b.test", "ed25519:1")
    signatures = {"a.test": {header.key: header.signature}}
    keys = {"ed25519:1": VerifyKey(bytes(KEY.signing_key.verify_key), 0)}
    for content, holds in (({"x": 1}, True), ({"x": 2}, False), (None, False)):
        signed = encode(signed_object("PUT", "/a", "a.test", "b.test", content))
        assert (verify(signed, signatures, "a.test", keys) == Verified()) is holds


def test_encoded_bodies_are_not_encoded_again() -> None:
    """An event is encoded once and sent to many servers."""
    assert encode_body(b'{"a":1}') == b'{"a":1}'
    assert encode_body({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert encode_body(None) is None


def test_a_body_without_canonical_json_is_refused() -> None:
    """Canonical JSON has no floats."""
    with pytest.raises(NotCanonical):
        encode_body({"a": 1.5})
