"""As much of YAML as people write into a file of settings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.yaml_reading import NotYaml, read_yaml
from bridge.yaml_text import yaml_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(min_codepoint=32,
    max_codepoint=0x24F, exclude_characters="\x7f\x85\xa0\xad"), max_size=8), lambda inner: st.lists(inner,
    max_size=3) | st.dictionaries(st.from_regex(r"[a-z][a-z0-9._-]{0,6}", fullmatch=True), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n\n---\n", None),
        ("a: b", {"a": "b"}),
        ("a: b # c", {"a": "b"}),
        ("a: b#c", {"a": "b#c"}),
        ('"a b": "c # \\"d\\"" # e', {"a b": 'c # "d"'}),
        ("a: 'it''s: #1'", {"a": "it's: #1"}),
        ("a:\nb: ~\nc: null\nd: 7\ne: -7\nf: true\ng: False", {
            "a": None, "b": None, "c": None, "d": 7, "e": -7, "f": True, "g": False,
        }),
        ("a: http://127.0.0.1:7678", {"a": "http://127.0.0.1:7678"}),
        ("a:\n  - b\n  - c: 1\n    d: 2\n  -\n    e: 3", {"a": ["b", {"c": 1, "d": 2}, {"e": 3}]}),
        ("a:\n- b\n- c\nd: e", {"a": ["b", "c"], "d": "e"}),
        ("a: []\nb: {}\nc: [d, 7, true]", {"a": [], "b": {}, "c": ["d", 7, True]}),
        ('a: ["b, c"]', {"a": ["b, c"]}),
        ("- a\n- - b\n  - c", ["a", ["b", "c"]]),
        ("de.sorunome.x: true", {"de.sorunome.x": True}),
        ("a: 0123\nb: 1.5", {"a": "0123", "b": "1.5"}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ("a: '@_irc_.*:x'\nb: \"^@a\\\\.b$\"", {"a": "@_irc_.*:x", "b": "^@a\\.b$"}),
    ],
)  # fmt: skip
def test_what_people_write_is_read(text: str, value: Any) -> None:
    """As any reader of YAML does."""
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\n c: d", 2),
        ("a:\n    b: 1\n  c: 2", 3),
        ("a: 1\nb", 2),
        ("a: 1\na: 2", 2),
        ("a: yes", 1),
        ("a: &b c", 1),
        ("a: *b", 1),
        ("a: !!str c", 1),
        ("a: |\n  b", 1),
        ("a: >\n  b", 1),
        ("a: {b: c}", 1),
        ("a: [b", 1),
        ("a: [{b: c}]", 1),
        ("a: b: c", 1),
        ("a: @b", 1),
        ('a: "b', 1),
        ('a: "b" c', 1),
        ('a: "\\x41"', 1),
        ("a:\n\tb: c", 2),
        ("- a\nb: c", 2),
        ("- " * 100 + "a", 1),
        ("a: 1\n" + "#\n" * 10_001, 10_000),
        ('{"a": }', 1),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(text: str, line: int) -> None:
    """And not taken for something else."""
    found = read_yaml(text)
    assert isinstance(found, NotYaml)
    assert found.reason.startswith(f"Line {line}: ")


@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    """Whatever this program writes itself."""
    assert read_yaml(yaml_text(value)) == value


@given(st.text(max_size=60) | st.text(st.sampled_from("ab:- \n'\"[]{}#&*!|>,~?\t\\"), max_size=40))
def test_any_text_may_come(text: str) -> None:
    """It is read, or refused in a sentence."""
    found = read_yaml(text)
    assert not isinstance(found, NotYaml) or found.reason.startswith("Line ")


def test_a_refusal_does_not_show_what_stands_there() -> None:
    """It may be a secret."""
    for text in ("as_token: 'secret", "secret", "as_token: &secret", "a: 1\nsecret"):
        found = read_yaml(text)
        assert "secret" not in (found.reason if isinstance(found, NotYaml) else "")
