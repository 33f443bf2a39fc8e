"""What a room gets to see of a call's parameters."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES
from bridge.connectors.offices.rooms.masking import (
    LONGEST_TEXT,
    MORE,
    MOST_BYTES,
    MOST_LEVELS,
    MOST_PATHS_BYTES,
    Masked,
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
def test_what_a_name_says_is_secret_is_hidden(key: str, value: object) -> None:
    """At any depth, in every spelling, with whatever value; the path tells that there is one."""
    for params in ({key: value}, {"a": [{"b": {key: value}}]}):
        found = masked(params)
        assert SECRET not in str(found)
        assert HIDDEN in str(found.value)
        assert len(found.hidden) == 1


def test_the_paths_are_json_pointers() -> None:
    """RFC 6901: of what is there now."""
    params = {"a/b": [1, {"token": SECRET}], "c~d": {"url": f"https://me:{SECRET}@x/"}, "open": "x"}
    found = masked(params)
    assert found == Masked(
        {"a/b": [1, {"token": HIDDEN}], "c~d": {"url": f"https://me:{HIDDEN}@x/"}, "open": "x"},
        ("/a~1b/1/token", "/c~0d/url"),
    )


@pytest.mark.parametrize(
    "key", ["path", "name", "author", "keyboard", "compass", "spin", "pinned", "passed", "key", "authority"]
)
def test_what_only_sounds_like_it_stays(key: str) -> None:
    assert masked({key: "x"}) == Masked({key: "x"}, ())


def test_flags_and_counts_are_no_secrets() -> None:
    params = {"use_token": True, "password": None, "max_tokens": 500, "maxTokens": 5}
    assert masked(params) == Masked(params, ())
    assert masked({"tokens": "abc"}).value == {"tokens": HIDDEN}


def test_names_of_the_configuration_are_hidden_too() -> None:
    """In whatever spelling; as whole names, since short ones are part of many others."""
    params = {"Customer-Number": 5, "iban": "DE1", "ibanez": "guitar", "Name": "x"}
    found = masked(params, ["customer_number", "IBAN"])
    assert found.value == {"Customer-Number": HIDDEN, "iban": HIDDEN, "ibanez": "guitar", "Name": "x"}
    assert found.hidden == ("/Customer-Number", "/iban")


@pytest.mark.parametrize("naming", ["name", "key", "Header"])
def test_a_pair_of_name_and_value_is_one(naming: str) -> None:
    """So headers and variables are listed."""
    pair = {naming: "X-Api-Key", "Value": SECRET}
    assert masked([pair]) == Masked([{naming: "X-Api-Key", "Value": HIDDEN}], ("/0/Value",))
    harmless = {naming: "Accept", "value": "text/plain"}
    assert masked(harmless) == Masked(harmless, ())


@pytest.mark.parametrize(
    "text",
    [
        f"curl -H 'Authorization: Bearer {SECRET}'",
        f"postgresql://me:{SECRET}@db/x",
        f'{{"password": "{SECRET}"}}',
        f"-----BEGIN PRIVATE KEY-----\n{SECRET * 1_000}\n-----END PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    """In any text, and in a name."""
    found = masked({"command": text, text: 1})
    assert SECRET not in str(found)
    assert len(found.hidden) == 2


@given(st.one_of(*(st.from_regex(shape) for shape, _ in SECRET_PATTERNS)))
def test_no_shape_of_a_secret_is_passed_over(text: str) -> None:
    """Texts without any sign of one are not searched for the shapes: whoever adds one adds its sign."""
    assert redact_text(text) == text or masked({"a": text}).hidden == ("/a",)


def test_a_token_for_an_office_is_hidden() -> None:
    """Of which an Agent has one."""
    token = make_token(b"\1" * ID_BYTES, b"\2" * SECRET_BYTES)
    found = masked({"args": ["--as", token.text]})
    assert token.text not in str(found)
    assert found.hidden == ("/args/1",)


@pytest.mark.parametrize("before", [LONGEST_TEXT - 30, LONGEST_TEXT - 5, LONGEST_TEXT, LONGEST_TEXT + 505])
def test_a_cut_shows_no_part_of_a_secret(before: int) -> None:
    """What it goes through is known by its shape all the same."""
    text = "x " * (before // 2) + f"https://me:{SECRET}@db/x" + " y" * 5_000
    assert "hunter" not in str(masked({"a": text}).value)


def test_numbers_that_matrix_has_not_become_text() -> None:
    """Integers beyond 2^53 and all others; of one that nobody can read, how long it is."""
    assert masked([2**53 - 1, 2**53, -(2**53), 0.5, 2.0, float("inf"), float("nan"), True, 10**100_000]) == (
        [2**53 - 1, str(2**53), str(-(2**53)), "0.5", "2.0", "inf", "nan", True, "[a number of 332193 bits]"],
        (),
    )


def test_what_no_event_can_hold_is_replaced() -> None:
    """NUL, halves of characters, attachments, and whatever a decoder may make up."""
    found = masked({"a\0": "b\ud800c", "d": b"1234", "e": {1}, 5: (1, 2)})
    assert found.value == {"a\ufffd": "b\ufffdc", "d": "[4 bytes]", "e": "[set]", "5": [1, 2]}


def test_no_name_hides_another() -> None:
    """Two that look alike now stay two: people decide by what they see."""
    found = masked({"path": 1, "a\0": 2, "a" + "\ud800": 3, "a" + "\ufffd": 4})
    assert sorted(found.value.values()) == [1, 2, 3, 4]


def test_what_is_long_is_cut_and_says_so() -> None:
    """A text, a name, a list, an object."""
    long = masked({"content": "line\n" * 10_000, "k" * 900: 1}).value
    assert long["content"].startswith("line\nline\n")
    assert long["content"].endswith("… [50000 characters]")
    assert f"{'k' * 200}{MORE}" in long
    assert masked(list(range(100_000))).value[-1].endswith(" more]")
    cut = masked({f"key {n}": n for n in range(100_000)}).value
    assert cut[MORE].endswith(" more]")
    assert MORE in masked({MORE: 1, **{f"key {n}": n for n in range(100_000)}}).value


def test_a_text_fits_to_the_last_character() -> None:
    """What is as long as allowed is whole."""
    text = "x" * LONGEST_TEXT
    assert masked({"a": text}).value == {"a": text}
    assert masked({"a": text + "x"}).value["a"] == text + f"… [{LONGEST_TEXT + 1} characters]"


def test_what_is_often_written_stays_whole() -> None:
    """Long runs without a blank, which could be the beginning of something else at each letter."""
    texts = [
        "-" * 200,
        "x" * 3_000,
        "1.2.3.4" * 50,
        "deploy-eu-west-1.prod.example-company.com/a-b-c/d.e.f.g" * 30,
        "../" * 50,
        "a." * 100,
    ]
    assert masked(texts) == Masked(texts, ())
    assert "a." not in masked(f"https://me:{'a.' * 100}@db/x").value


def test_what_is_nested_too_deep_is_cut() -> None:
    """However deep it is."""
    value: Any = "x"
    for at in range(100_000):
        value = {"a": value} if at % 2 else [value]
    found = masked(value).value
    assert depth(found) == MOST_LEVELS
    assert f"deeper than {MOST_LEVELS} levels" in json.dumps(found)


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
    """As much of it as a frame holds."""
    began = time.process_time()
    found = masked(params)
    assert time.process_time() - began < 1
    assert len(encode(found.value)) <= MOST_BYTES
    assert len(encode(list(found.hidden))) <= MOST_PATHS_BYTES + 100


@given(VALUES)
def test_the_copy_fits_into_an_event(params: Any) -> None:
    """It is canonical JSON of at most so many bytes and levels, whatever was sent; and that is left as it
    was."""
    before = repr(params)
    found = masked(params)
    assert len(encode(found.value)) <= MOST_BYTES
    assert depth(found.value) <= MOST_LEVELS
    assert "\0" not in str(found)
    assert repr(params) == before


@given(st.lists(st.text(st.characters(max_codepoint=200), max_size=700) | st.integers(), max_size=300))
def test_many_values_fit_too(params: list[Any]) -> None:
    """Up to the last byte."""
    assert len(encode(masked({str(at): item for at, item in enumerate(params)}).value)) <= MOST_BYTES
    assert len(encode(masked(params).value)) <= MOST_BYTES
