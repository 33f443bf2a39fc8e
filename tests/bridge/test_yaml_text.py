"""YAML that people read."""

from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it publishes no types
from hypothesis import given
from hypothesis import strategies as st

from bridge.yaml_text import yaml_text

TEXT = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")) | st.just("\n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6, width=32) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_whoever_reads_it_gets_the_same(value: Any) -> None:
    """Whatever a text looks like: a number, a truth, a comment, an end of the document."""
    assert yaml.safe_load(yaml_text(value)) == value


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
