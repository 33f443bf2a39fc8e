"""YAML that people read."""

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
def test_whoever_reads_it_gets_the_same(value: Any) -> None:
    """Whatever a text looks like: a number, a truth, a comment, an end of the document."""
    assert yaml.safe_load(yaml_text(value)) == read_yaml(yaml_text(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "No",
        "null",
        "~",
        "1",
        "1.0",
        "1e3",
        "0x1",
        "2026-01-01",
        "a: b",
        "a #b",
        "- a",
        "",
        " a",
        "---",
    ],
)
def test_what_could_be_mistaken_is_quoted(text: str) -> None:
    """Here a few that often are."""
    assert yaml.safe_load(yaml_text({"key": text, text: 1})) == {"key": text, text: 1}


def test_it_looks_as_people_write_it() -> None:
    """Without quotes where there is no doubt, and with lines of their own for long texts."""
    value = {
        "name": "a plain text",
        "list": [{"a": 1, "b": []}, [True, None]],
        "text": "one\n\ntwo\n",
        "none": {},
    }
    assert yaml_text(value) == (
        "name: a plain text\nlist:\n  - a: 1\n    b: []\n  - - true\n    - null\n"
        "text: |\n  one\n\n  two\nnone: {}\n"
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
def test_what_people_write_is_read(text: str, value: Any) -> None:
    """As Synapse reads it."""
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
def test_what_is_wrong_is_refused_with_its_line(text: str, line: int) -> None:
    """So is what others could read otherwise, and what could grow."""
    found = read_yaml(text)
    assert isinstance(found, NotYaml)
    assert found.reason.startswith(f"Line {line}: ")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "- " * 20_000,
        "\0",
        "a: 2026-99-99",
        "!!int ''",
        "!!bool x",
        "!!timestamp x",
        "9" * 5_000,
    ],
)
def test_values_that_are_none_are_refused(text: str) -> None:
    """However deep they are nested."""
    assert isinstance(read_yaml(text), NotYaml)


@given(st.text(max_size=60) | st.text(st.sampled_from("ab:- \n'\"[]{}#&*!|>,~?\t\\<=%"), max_size=40))
def test_any_text_may_come(text: str) -> None:
    """It is read, or refused in a sentence."""
    found = read_yaml(text)
    assert not isinstance(found, NotYaml) or found.reason.endswith(".")


def test_a_refusal_does_not_show_what_stands_there() -> None:
    """It may be a secret."""
    for text in ("a: 'secret", "a: 1\nsecret", "a: !secret b", "a: !secret!b c", "a: *secret", "a: %secret"):
        found = read_yaml(text)
        assert isinstance(found, NotYaml)
        assert "secret" not in found.reason
