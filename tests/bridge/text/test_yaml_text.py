"""Writing and reading YAML."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bridge.text.yaml_text import NotYaml, read_yaml, yaml_text

TEXT = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")) | st.just("\n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6, width=32) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_a_written_value_can_be_read(value: Any) -> None:
    """For any text, also if it looks like a number, a boolean, a comment or the end of a document."""
    assert yaml.safe_load(yaml_text(value)) == read_yaml(yaml_text(value)) == value


@pytest.mark.parametrize(
    "text", ["yes", "No", "null", "~", "1", "1.0", "1e3", "0x1", "2026-01-01", "a: b", "a #b", "- a", "", " a", "---"]
)
def test_ambiguous_text_is_quoted(text: str) -> None:
    """These texts mean something else without quotes."""
    assert yaml.safe_load(yaml_text({"key": text, text: 1})) == {"key": text, text: 1}


def test_the_output_is_readable() -> None:
    """Text is quoted only if needed, and multi-line text is a block."""
    value = {"name": "a plain text", "list": [{"a": 1, "b": []}, [True, None]], "text": "one\n\ntwo\n", "none": {}}
    assert yaml_text(value) == (
        "name: a plain text\nlist:\n  - a: 1\n    b: []\n  - - true\n    - null\ntext: |\n  one\n\n  two\nnone: {}\n"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n\n---\n", None),
        ("a: b # c\n'd e': \"f\\n\"", {"a": "b", "d e": "f\n"}),
        ("a:\nb: ~\nc: 7\nd: yes", {"a": None, "b": None, "c": 7, "d": True}),
        ("a:\n- b\n- {c: [d]}", {"a": ["b", {"c": ["d"]}]}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    ],
)
def test_common_yaml_is_read(text: str, value: Any) -> None:
    """With the same result as in Synapse."""
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\n c: d", 2),
        ("a: 1\nb", 2),
        ("a: 1\na: 2", 2),
        ("a: &b c\nd: *b", 2),
        ("a: !!python/object:os.system c", 1),
        ("a: [b", 1),
        ("a: @b", 1),
        ('a: "b', 1),
        ('a: "b" c', 1),
        ("a:\n\tb: c", 2),
        ("a: 1\n---\na: 2", 2),
    ],
)
def test_an_error_names_the_line(text: str, line: int) -> None:
    """So do aliases, duplicate keys, tags and several documents, which are not supported."""
    found = read_yaml(text)
    assert isinstance(found, NotYaml)
    assert found.reason.startswith(f"Line {line}: ")


@pytest.mark.parametrize(
    "text", ["[" * 20_000, "- " * 20_000, "\0", "a: 2026-99-99", "!!int ''", "!!bool x", "!!timestamp x", "9" * 5_000]
)
def test_invalid_values_are_refused(text: str) -> None:
    """Text that is nested too deeply, and tags with invalid values."""
    assert isinstance(read_yaml(text), NotYaml)


@given(st.text(max_size=60) | st.text(st.sampled_from("ab:- \n'\"[]{}#&*!|>,~?\t\\<=%"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises another exception."""
    found = read_yaml(text)
    assert not isinstance(found, NotYaml) or found.reason.endswith(".")


def test_an_error_does_not_quote_the_text() -> None:
    """It may contain a secret."""
    for text in ("a: 'secret", "a: 1\nsecret", "a: !secret b", "a: !secret!b c", "a: *secret", "a: %secret"):
        found = read_yaml(text)
        assert isinstance(found, NotYaml)
        assert "secret" not in found.reason
