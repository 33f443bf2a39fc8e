"""Masking the parameters of a call."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES
from bridge.connectors.offices.rooms.masking import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_PATHS_BYTES,
    MAX_TEXT_LENGTH,
    MORE,
    MaskedValue,
    masked,
)
from bridge.connectors.offices.tokens import make_token
from bridge.text.redaction import HIDDEN, SECRET_PATTERNS, redact_text
from federation.matrix.canonical_json import encode

SECRET = "hunter2secret"
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.sampled_from(["x" * 5_000, '"' * 3_000, "😀" * 4_500, "\0" * 100, "a." * 3_000])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(st.characters()), inner, max_size=8),
    max_leaves=60,
)


def depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict | list):
                below += one.values() if isinstance(one, dict) else one
        deepest += any(isinstance(one, dict | list) for one in level)
        level = below
    return deepest


@pytest.mark.parametrize(
    "key",
    [
        "password", "Passwd", "user_password", "secret", "clientSecret", "token", "ACCESS-TOKEN",
        "Authorization", "Set-Cookie", "credentials", "api_key", "apikey", "apiKey", "API-KEY", "X-Api-Key",
        "api key", "private_key", "privateKey", "access_key", "AWS_SECRET_ACCESS_KEY", "seed", "passphrase",
        "pass\u200bword", "ｐａｓｓｗｏｒｄ", "pwd", "pass", "auth", "PIN", "x" * 2_000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [SECRET, 1234, 1.5, {"a": SECRET}, [SECRET], "", b"x"])
def test_a_value_with_a_secrets_name_is_hidden(key: str, value: object) -> None:
    """At any depth, in every spelling, whatever the value is. Its path is listed."""
    for params in ({key: value}, {"a": [{"b": {key: value}}]}):
        found = masked(params)
        assert SECRET not in str(found)
        assert HIDDEN in str(found.value)
        assert len(found.hidden) == 1


def test_paths_are_json_pointers() -> None:
    """RFC 6901, into the masked value."""
    params = {"a/b": [1, {"token": SECRET}], "c~d": {"url": f"https://me:{SECRET}@x/"}, "open": "x"}
    found = masked(params)
    assert found == MaskedValue(
        {"a/b": [1, {"token": HIDDEN}], "c~d": {"url": f"https://me:{HIDDEN}@x/"}, "open": "x"},
        ("/a~1b/1/token", "/c~0d/url"),
    )


@pytest.mark.parametrize(
    "key", ["path", "name", "author", "keyboard", "compass", "spin", "pinned", "passed", "key", "authority"]
)
def test_similar_names_are_not_hidden(key: str) -> None:
    assert masked({key: "x"}) == MaskedValue({key: "x"}, ())


def test_flags_and_counts_are_no_secrets() -> None:
    params = {"use_token": True, "password": None, "max_tokens": 500, "maxTokens": 5}
    assert masked(params) == MaskedValue(params, ())
    assert masked({"tokens": "abc"}).value == {"tokens": HIDDEN}


def test_configured_names_are_hidden() -> None:
    """In any spelling, but only as whole names: short ones are part of many others."""
    params = {"Customer-Number": 5, "iban": "DE1", "ibanez": "guitar", "Name": "x"}
    found = masked(params, ["customer_number", "IBAN"])
    assert found.value == {"Customer-Number": HIDDEN, "iban": HIDDEN, "ibanez": "guitar", "Name": "x"}
    assert found.hidden == ("/Customer-Number", "/iban")


@pytest.mark.parametrize("naming", ["name", "key", "Header"])
def test_a_pair_of_name_and_value_is_recognised(naming: str) -> None:
    """Headers and variables are often listed in this form."""
    pair = {naming: "X-Api-Key", "Value": SECRET}
    assert masked([pair]) == MaskedValue([{naming: "X-Api-Key", "Value": HIDDEN}], ("/0/Value",))
    harmless = {naming: "Accept", "value": "text/plain"}
    assert masked(harmless) == MaskedValue(harmless, ())


@pytest.mark.parametrize(
    "text",
    [
        f"curl -H 'Authorization: Bearer {SECRET}'",
        f"postgresql://me:{SECRET}@db/x",
        f'{{"password": "{SECRET}"}}',
        f"-----BEGIN PRIVATE KEY-----\n{SECRET * 1_000}\n-----END PRIVATE KEY-----",
    ],
)
def test_text_with_the_shape_of_a_secret_is_hidden(text: str) -> None:
    """In values and in names."""
    found = masked({"command": text, text: 1})
    assert SECRET not in str(found)
    assert len(found.hidden) == 2


@given(st.one_of(*(st.from_regex(shape) for shape, _ in SECRET_PATTERNS)))
def test_every_shape_of_a_secret_has_a_marker(text: str) -> None:
    """Texts without a marker are not searched, so a new shape needs a new marker."""
    assert redact_text(text) == text or masked({"a": text}).hidden == ("/a",)


def test_a_token_for_offices_is_hidden() -> None:
    """Each Agent has one."""
    token = make_token(b"\1" * ID_BYTES, b"\2" * SECRET_BYTES)
    found = masked({"args": ["--as", token.text]})
    assert token.text not in str(found)
    assert found.hidden == ("/args/1",)


@pytest.mark.parametrize("before", [MAX_TEXT_LENGTH - 30, MAX_TEXT_LENGTH - 5, MAX_TEXT_LENGTH, MAX_TEXT_LENGTH + 505])
def test_a_shortened_text_shows_no_part_of_a_secret(before: int) -> None:
    """Although the cut goes through the secret."""
    text = "x " * (before // 2) + f"https://me:{SECRET}@db/x" + " y" * 5_000
    assert "hunter" not in str(masked({"a": text}).value)


def test_numbers_that_matrix_does_not_have_become_text() -> None:
    """Integers beyond 2^53 and fractions. Of a huge integer only the size is kept."""
    assert masked([2**53 - 1, 2**53, -(2**53), 0.5, 2.0, float("inf"), float("nan"), True, 10**100_000]) == (
        [2**53 - 1, str(2**53), str(-(2**53)), "0.5", "2.0", "inf", "nan", True, "[a number of 332193 bits]"],
        (),
    )


def test_values_that_an_event_cannot_hold_are_replaced() -> None:
    """NUL, lone surrogates, attachments, and Python types of decoders."""
    found = masked({"a\0": "b\ud800c", "d": b"1234", "e": {1}, 5: (1, 2)})
    assert found.value == {"a\ufffd": "b\ufffdc", "d": "[4 bytes]", "e": "[set]", "5": [1, 2]}


def test_names_that_become_equal_stay_distinct() -> None:
    """No value may disappear, because people decide by what they see."""
    found = masked({"path": 1, "a\0": 2, "a" + "\ud800": 3, "a" + "\ufffd": 4})
    assert sorted(found.value.values()) == [1, 2, 3, 4]


def test_long_values_are_shortened_with_a_note() -> None:
    """Texts, names, arrays and objects."""
    long = masked({"content": "line\n" * 10_000, "k" * 900: 1}).value
    assert long["content"].startswith("line\nline\n")
    assert long["content"].endswith("… [50000 characters]")
    assert f"{'k' * 200}{MORE}" in long
    assert masked(list(range(100_000))).value[-1].endswith(" more]")
    cut = masked({f"key {n}": n for n in range(100_000)}).value
    assert cut[MORE].endswith(" more]")
    assert MORE in masked({MORE: 1, **{f"key {n}": n for n in range(100_000)}}).value


def test_a_text_of_the_maximum_length_is_whole() -> None:
    """One more character, and it is shortened."""
    text = "x" * MAX_TEXT_LENGTH
    assert masked({"a": text}).value == {"a": text}
    assert masked({"a": text + "x"}).value["a"] == text + f"… [{MAX_TEXT_LENGTH + 1} characters]"


def test_ordinary_texts_are_unchanged() -> None:
    """Long runs without spaces, in which each letter could begin something else."""
    texts = [
        "-" * 200,
        "x" * 3_000,
        "1.2.3.4" * 50,
        "deploy-eu-west-1.prod.example-company.com/a-b-c/d.e.f.g" * 30,
        "../" * 50,
        "a." * 100,
    ]
    assert masked(texts) == MaskedValue(texts, ())
    assert "a." not in masked(f"https://me:{'a.' * 100}@db/x").value


def test_deep_nesting_is_cut() -> None:
    """However deep it is."""
    value: Any = "x"
    for at in range(100_000):
        value = {"a": value} if at % 2 else [value]
    found = masked(value).value
    assert depth(found) == MAX_DEPTH
    assert f"deeper than {MAX_DEPTH} levels" in json.dumps(found)


@pytest.mark.parametrize(
    "params",
    [
        {"a": "a." * 500_000},
        ["-----BEGIN PRIVATE KEY-----" + "a." * 2_200] * 200,
        ["-----BEGIN PRIVATE KEY-----" + ("a." * 32 + " ") * 70] * 200,
        ["-----BEGIN PRIVATE KEY-----" + ("a." * 16 + "a" * 200 + " ") * 20] * 200,
        {"\u0301\u0316" * 250_000: 1},
        {f"a{chr(0) * n}": n for n in range(1_400)},
        {"a" + "\0" * 20: 1, **{f"a{chr(0xFFFD) * 20} ({n})": n for n in range(2_000)}},
        ["password " * 100, "'token' " * 10_000] * 50,
        [{"token": "x"}] * 50_000,
        [[[]] * 10] * 100_000,
        "-----BEGIN " * 90_000,
        {"K." * 200_000: "x://" + "ſ-" * 200_000},
    ],
    ids=range(12),
)
def test_hostile_input_is_not_slow(params: object) -> None:
    """Up to the size of a frame."""
    began = time.process_time()
    found = masked(params)
    assert time.process_time() - began < 1
    assert len(encode(found.value)) <= MAX_BYTES
    assert len(encode(list(found.hidden))) <= MAX_PATHS_BYTES + 100


@given(VALUES)
def test_the_copy_fits_into_an_event(params: Any) -> None:
    """It is canonical JSON within the limits of bytes and levels, whatever was sent. The original is not
    changed."""
    before = repr(params)
    found = masked(params)
    assert len(encode(found.value)) <= MAX_BYTES
    assert depth(found.value) <= MAX_DEPTH
    assert "\0" not in str(found)
    assert repr(params) == before


@given(st.lists(st.text(st.characters(max_codepoint=200), max_size=700) | st.integers(), max_size=300))
def test_many_values_fit_into_an_event(params: list[Any]) -> None:
    """Up to the last byte."""
    assert len(encode(masked({str(at): item for at, item in enumerate(params)}).value)) <= MAX_BYTES
    assert len(encode(masked(params).value)) <= MAX_BYTES
