"""The encoding of numbers that a Matrix event cannot hold."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol.json_values import NUMBERS_KEY, decode_numbers, encode_numbers
from bridge.connectors.cis.protocol.refusals import InvalidPayload
from federation.matrix.canonical_json import encode
from tests.bridge.connectors.cis.samples import HONEST, HONEST_TEXT, HOSTILE

CONTENTS = st.dictionaries(HONEST_TEXT, HONEST, max_size=4)


def test_numbers_are_encoded_as_text_and_listed() -> None:
    """A reader that does not know the list sees strings."""
    content = {"a": {"cost": 0.25, "n": 3, "b/c~d": [1.0, 2**60]}, "z": -1e-7}
    kept = encode_numbers(content)
    assert kept == {
        "a": {"cost": "0.25", "n": 3, "b/c~d": ["1.0", "1152921504606846976"]},
        "z": "-1e-7",
        NUMBERS_KEY: ["/a/cost", "/a/b~1c~0d/0", "/a/b~1c~0d/1", "/z"],
    }
    assert decode_numbers(kept) == content
    assert content["z"] == -1e-7


def test_content_without_such_numbers_is_unchanged() -> None:
    """Most events have none."""
    content = {"a": [1, "1.5", None, True]}
    assert encode_numbers(content) is content
    assert decode_numbers(content) is content


@given(CONTENTS)
def test_every_number_survives_a_round_trip(content: dict[str, Any]) -> None:
    """Exactly and with its type; the encoded form is canonical JSON."""
    again = decode_numbers(json.loads(encode(encode_numbers(content))))
    assert json.dumps(again, sort_keys=True) == json.dumps(content, sort_keys=True)


@pytest.mark.parametrize(
    "content",
    [
        {"a": "1.5", NUMBERS_KEY: {}},
        {"a": "1.5", NUMBERS_KEY: [1]},
        {"a": "1.5", NUMBERS_KEY: [""]},
        {"a": "1.5", NUMBERS_KEY: ["a"]},
        {"a": "1.5", NUMBERS_KEY: ["/b"]},
        {"a": "1.5", NUMBERS_KEY: ["/a/0"]},
        {"a": "1.5", NUMBERS_KEY: ["/a", "/a"]},
        {"a": ["1.5"], NUMBERS_KEY: ["/a/-1"]},
        {"a": ["1.5"], NUMBERS_KEY: ["/a/1"]},
        {"a": ["1.5"], NUMBERS_KEY: ["/a/٠"]},
        {"a": ["1.5"], NUMBERS_KEY: ["/a"]},
        {"a": "0x10", NUMBERS_KEY: ["/a"]},
        {"a": "1_0", NUMBERS_KEY: ["/a"]},
        {"a": " 1", NUMBERS_KEY: ["/a"]},
        {"a": "nan", NUMBERS_KEY: ["/a"]},
        {"a": "1e999", NUMBERS_KEY: ["/a"]},
        {"a": "18446744073709551616", NUMBERS_KEY: ["/a"]},
        {"a": "9" * 5000, NUMBERS_KEY: ["/a"]},
        {"a": 1.5, NUMBERS_KEY: ["/a"]},
    ],
)
def test_a_wrong_list_is_refused(content: dict[str, Any]) -> None:
    """Each pointer must lead to a number."""
    refused = decode_numbers(content)
    assert isinstance(refused, InvalidPayload)
    assert refused.field == NUMBERS_KEY


@given(st.dictionaries(HONEST_TEXT, HONEST, max_size=3), HOSTILE | st.lists(st.text("/a0~1"), max_size=3))
def test_any_list_is_decoded_or_refused(content: dict[str, Any], pointers: Any) -> None:
    """Decoding never raises."""
    decode_numbers({**content, "a": {"0": "1.5", "": ["2"]}, NUMBERS_KEY: pointers})


def test_a_foreign_list_is_removed() -> None:
    """The encoder writes its own."""
    assert encode_numbers({"a": 1, NUMBERS_KEY: ["/a"]}) == {"a": 1}
    assert encode_numbers({"a": 1.5, NUMBERS_KEY: ["/b"]}) == {"a": "1.5", NUMBERS_KEY: ["/a"]}
