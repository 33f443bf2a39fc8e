"""Numbers that a Matrix event cannot hold."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol.json_values import KEY, restored, written
from bridge.connectors.cis.protocol.refusals import InvalidPayload
from federation.matrix.canonical_json import encode
from tests.bridge.connectors.cis.samples import HONEST, HONEST_TEXT, HOSTILE

CONTENTS = st.dictionaries(HONEST_TEXT, HONEST, max_size=4)


def test_they_stand_as_texts_and_are_listed() -> None:
    """A reader that does not know the list sees a text."""
    content = {"a": {"cost": 0.25, "n": 3, "b/c~d": [1.0, 2**60]}, "z": -1e-7}
    kept = written(content)
    assert kept == {
        "a": {"cost": "0.25", "n": 3, "b/c~d": ["1.0", "1152921504606846976"]},
        "z": "-1e-7",
        KEY: ["/a/cost", "/a/b~1c~0d/0", "/a/b~1c~0d/1", "/z"],
    }
    assert restored(kept) == content
    assert content["z"] == -1e-7


def test_nothing_is_said_where_nothing_is_to_be_said() -> None:
    """Most events have no such number."""
    content = {"a": [1, "1.5", None, True]}
    assert written(content) is content
    assert restored(content) is content


@given(CONTENTS)
def test_every_number_comes_back(content: dict[str, Any]) -> None:
    """Exactly, and of its kind; and in between a Matrix event can hold it."""
    again = restored(json.loads(encode(written(content))))
    assert json.dumps(again, sort_keys=True) == json.dumps(content, sort_keys=True)


@pytest.mark.parametrize(
    "content",
    [
        {"a": "1.5", KEY: {}},
        {"a": "1.5", KEY: [1]},
        {"a": "1.5", KEY: [""]},
        {"a": "1.5", KEY: ["a"]},
        {"a": "1.5", KEY: ["/b"]},
        {"a": "1.5", KEY: ["/a/0"]},
        {"a": "1.5", KEY: ["/a", "/a"]},
        {"a": ["1.5"], KEY: ["/a/-1"]},
        {"a": ["1.5"], KEY: ["/a/1"]},
        {"a": ["1.5"], KEY: ["/a/٠"]},
        {"a": ["1.5"], KEY: ["/a"]},
        {"a": "0x10", KEY: ["/a"]},
        {"a": "1_0", KEY: ["/a"]},
        {"a": " 1", KEY: ["/a"]},
        {"a": "nan", KEY: ["/a"]},
        {"a": "1e999", KEY: ["/a"]},
        {"a": "18446744073709551616", KEY: ["/a"]},
        {"a": "9" * 5000, KEY: ["/a"]},
        {"a": 1.5, KEY: ["/a"]},
    ],
)
def test_a_wrong_list_is_refused(content: dict[str, Any]) -> None:
    """What it names is a number, or the payload is wrong."""
    refused = restored(content)
    assert isinstance(refused, InvalidPayload)
    assert refused.field == KEY


@given(st.dictionaries(HONEST_TEXT, HONEST, max_size=3), HOSTILE | st.lists(st.text("/a0~1"), max_size=3))
def test_any_list_is_followed_or_refused(content: dict[str, Any], pointers: Any) -> None:
    """Nothing is raised for one that somebody made up."""
    restored({**content, "a": {"0": "1.5", "": ["2"]}, KEY: pointers})


def test_a_list_of_somebody_else_s_is_not_passed_on() -> None:
    """The key is ours to write."""
    assert written({"a": 1, KEY: ["/a"]}) == {"a": 1}
    assert written({"a": 1.5, KEY: ["/b"]}) == {"a": "1.5", KEY: ["/a"]}
