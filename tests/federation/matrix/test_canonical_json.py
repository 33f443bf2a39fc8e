"""Canonical JSON (specification, appendix "Canonical JSON")."""

import json
from enum import StrEnum
from typing import Any

import canonicaljson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix import canonical_json
from federation.matrix.canonical_json import NotCanonical, NotJson

LARGEST = 2**53 - 1

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-LARGEST, LARGEST)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({}, b"{}"),
        ({"one": 1, "two": "Two"}, b'{"one":1,"two":"Two"}'),
        ({"b": "2", "a": "1"}, b'{"a":"1","b":"2"}'),
        (
            {
                "auth": {
                    "success": True,
                    "mxid": "@john.doe:example.com",
                    "profile": {
                        "display_name": "John Doe",
                        "three_pids": [
                            {"medium": "email", "address": "john.doe@example.org"},
                            {"medium": "msisdn", "address": "123456789"},
                        ],
                    },
                }
            },
            (
                b'{"auth":{"mxid":"@john.doe:example.com","profile":{"display_name":"John Doe","three_pids":['
                b'{"address":"john.doe@example.org","medium":"email"},{"address":"123456789","medium":"msisdn"}]},'
                b'"success":true}}'
            ),
        ),
        ({"a": "日本語"}, '{"a":"日本語"}'.encode()),
        ({"本": 2, "日": 1}, '{"日":1,"本":2}'.encode()),
        ({"a": "\u65e5"}, '{"a":"日"}'.encode()),
        ({"a": None}, b'{"a":null}'),
        ({"a": -0, "b": 10000000000}, b'{"a":0,"b":10000000000}'),
    ],
)
def test_the_examples_of_the_specification(value: Any, written: bytes) -> None:
    """Each example of the appendix is encoded exactly as printed there."""
    assert canonical_json.encode(value) == written


@given(values)
def test_it_equals_the_reference_encoder(value: Any) -> None:
    """`canonicaljson`, which Synapse uses; in both modes."""
    assert canonical_json.encode(value) == canonicaljson.encode_canonical_json(value)
    assert canonical_json.encode(value, strict=False) == canonicaljson.encode_canonical_json(value)


@given(values)
def test_canonical_json_is_a_fixed_point(value: Any) -> None:
    """Decoding and encoding again gives the same bytes."""
    written = canonical_json.encode(value)
    assert canonical_json.decode(written) == value
    assert canonical_json.encode(canonical_json.decode(written)) == written


@given(st.recursive(leaves | st.floats(allow_nan=False, allow_infinity=False) | st.integers(), st.lists))
def test_numbers_of_old_room_versions(value: Any) -> None:
    """Room versions 3 to 5: floats and integers of any size, with Python's digits."""
    assert canonical_json.encode(value, strict=False) == canonicaljson.encode_canonical_json(value)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        LARGEST + 1,
        -LARGEST - 1,
        2**64,
        {"a": 2**53},
        1.0,
        -0.0,
        float("nan"),
        float("inf"),
        {"a": [{"b": 1.5}]},
        "\ud800",
        {"\udfff": 1},
        {1: "a"},
        {None: 1},
        (1, 2),
        b"bytes",
        {"a": {1, 2}},
        object(),
        Colour.RED,
        {Colour.RED: 1},
    ],
)
def test_values_without_canonical_form_are_refused(value: Any) -> None:
    """Integers beyond ±(2**53 − 1), floats, NaN, −0, lone surrogates, keys that are not strings, other
    types."""
    with pytest.raises(NotCanonical):
        canonical_json.encode(value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), "\ud800", {"\ud800": 1}, {1: 1}, {"a": 1, 2: 3}, (1,), b"x"]
)
def test_the_lenient_mode_is_lenient_about_numbers_only(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical_json.encode(value, strict=False)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("strict", [True, False])
def test_depth_is_bounded(strict: bool) -> None:
    """`MAX_DEPTH` levels are encoded, one more is refused; the caller may set a lower limit."""
    assert canonical_json.encode(nested(canonical_json.MAX_DEPTH), strict=strict).startswith(b"[[")
    for depth in (canonical_json.MAX_DEPTH + 1, 5_000):
        with pytest.raises(NotCanonical):
            canonical_json.encode(nested(depth), strict=strict)
    assert canonical_json.encode([1], strict=strict, max_depth=1) == b"[1]"
    with pytest.raises(NotCanonical):
        canonical_json.encode([[1]], strict=strict, max_depth=1)


def test_a_recursive_value_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotCanonical):
        canonical_json.encode(value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b'{"a":NaN}',
        b"[Infinity]",
        b"[-Infinity]",
        b"1e999",
        b'"\\ud800"',
        b'"\\udc00 and more"',
        b'{"\\ud800":1}',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        '{"a":1}'.encode("utf-16"),
        b'"a\nb"',
        b"[" * 100_000,
        b"[" * 1_020 + b"]" * 1_020,
        b'{"a":' * 50_000,
        b"9" * 100_000,
        b"[1.5," + b"9" * 5_000 + b"]",
        b"1.",
        b"01",
        b"+1",
        b"[1,]",
    ],
)
def test_malicious_bodies_raise_the_declared_error_only(body: bytes) -> None:
    """Deep nesting, huge numbers, lone surrogates, other encodings raise `NotJson`."""
    with pytest.raises(NotJson):
        canonical_json.decode(body)


@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode))
def test_any_bytes_are_decoded_or_raise_not_json(body: bytes) -> None:
    """And the result equals that of the standard library."""
    try:
        value = canonical_json.decode(body)
    except NotJson:
        return
    assert value == json.loads(body)


def test_of_equal_keys_the_last_wins() -> None:
    """As on other servers; the signature is checked over the decoded value."""
    assert canonical_json.decode(b'{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"1.0", 1.0),
        (b"1e2", 100.0),
        (b"-0.0", -0.0),
        (b"18446744073709551616", 2**64),
        (b"-9223372036854775809", -(2**63) - 1),
        (b'{"a":[1,2.5,36893488147419103232]}', {"a": [1, 2.5, 2**65]}),
    ],
)
def test_numbers_that_are_not_canonical_stay_detectable(body: bytes, value: Any) -> None:
    """Events of room version 6 with such a number are dropped, so decoding must not hide it; version 5
    accepts them."""
    read, is_to_be_looked_at = canonical_json.decode_and_find_floats(body)
    assert is_to_be_looked_at
    assert canonical_json.decode(body) == read == value
    assert type(read) is type(value)
    with pytest.raises(NotCanonical):
        canonical_json.encode(read)
    assert canonical_json.encode(read, strict=False) == canonicaljson.encode_canonical_json(value)


def test_one_too_deep_event_does_not_invalidate_a_response() -> None:
    """The limit for decoding is higher than that for encoding, so that the event can be dropped alone."""
    body = json.dumps({"pdus": [{"good": 1}, nested(300)]}).encode()
    answer = canonical_json.decode(body)
    assert canonical_json.encode(answer["pdus"][0]) == b'{"good":1}'
    with pytest.raises(NotCanonical):
        canonical_json.encode(answer["pdus"][1])


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"b": [None], "a": 1}, True),
        ({"a": True, "b": [None]}, False),
        ({"a": 1.0, "b": [None]}, False),
        ({"a": 1, "b": []}, False),
    ],
)
def test_equality_of_canonical_forms(other: Any, is_same: bool) -> None:
    """It differs from Python's equality. A value without canonical form does not even equal itself."""
    assert canonical_json.is_equal({"a": 1, "b": [None]}, other) == is_same
    assert not canonical_json.is_equal({"a": 1.5}, {"a": 1.5})
