"""The state event with a Computer's tools."""

import time
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.protocol.tools import (
    MAX_CONTENT_BYTES,
    MAX_DESCRIPTION_LENGTH,
    MAX_NAME_LENGTH,
    tools_content,
)
from federation.matrix.canonical_json import encode

ADD: dict[str, Any] = {
    "name": "demo__add",
    "bundle_id": "demo",
    "description": "Adds\n two   numbers.",
    "params_schema": {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.5}}},
    "return_schema": None,
}


def content(*tools: object) -> dict[str, Any]:
    found = tools_content({"tools": list(tools), "req_id": "r"})
    assert found is not None
    return found


def test_the_content_has_names_and_descriptions() -> None:
    """Each in one line. The hash stands for the rest."""
    assert content(ADD) == {
        "hash": sha256(encode([ADD], strict=False)).hexdigest(),
        "count": 1,
        "tools": [{"name": "demo__add", "description": "Adds two numbers."}],
    }
    assert content() == {"hash": sha256(b"[]").hexdigest(), "count": 0, "tools": []}


def test_the_hash_covers_the_whole_list() -> None:
    """It changes with a schema, but not with the order of keys."""
    other = {**ADD, "params_schema": {"type": "object"}}
    assert content(ADD)["tools"] == content(other)["tools"]
    assert content(ADD)["hash"] != content(other)["hash"]
    assert content(ADD) == content(dict(reversed(ADD.items())))


def test_the_hash_is_that_of_canonical_json() -> None:
    """If the list has a canonical form, other implementations compute the same hash."""
    tool = {"name": "ä\x7f\u2028", "n": [2**53 - 1, True, None], "b": {"z": 1, "ä": 2, "😀": 3, "\uffff": 4}}
    assert content(tool)["hash"] == sha256(encode([tool])).hexdigest()


@pytest.mark.parametrize(
    "answer",
    [
        None, [], "tools", 5, {}, {"tools": None}, {"tools": {}}, {"tools": [None]}, {"tools": ["add"]},
        {"tools": [{}]}, {"tools": [{"name": 1}]}, {"tools": [{"name": ""}]}, {"tools": [ADD, {"nome": "x"}]},
        {"code": 404, "message": "Computer with name 'x' not found"},
        {"tools": [{"name": "x", "a": float("nan")}]}, {"tools": [{"name": "x", "a": b"1"}]},
        {"tools": [{"name": "x\ud800"}]}, {"tools": [{"name": "x", 1: 2}]},
    ],
)  # fmt: skip
def test_an_answer_without_a_tool_list_has_no_content(answer: object) -> None:
    """Errors, other types and values that JSON does not have."""
    assert tools_content(answer) is None


def test_a_list_with_endless_nesting_has_no_content() -> None:
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    assert tools_content({"tools": [{"name": "x", "params_schema": nested}]}) is None


def test_texts_are_cleaned_and_shortened() -> None:
    """Control characters cannot hide or fake anything for readers of the state."""
    [shown] = content({"name": "n" * 500, "description": "a\u202eb\0c\x1b[31md\n\n" + "x " * 900})["tools"]
    assert shown["name"] == "n" * (MAX_NAME_LENGTH - 1) + "…"
    assert shown["description"].startswith("abcd x x")
    assert len(shown["description"]) == MAX_DESCRIPTION_LENGTH
    for odd in (None, 5, ["x"]):
        assert content({"name": "x", "description": odd})["tools"] == [{"name": "x", "description": ""}]


def test_a_list_that_is_too_long_is_shortened() -> None:
    """The content has a mark for that, and the number of all tools."""
    found = content(*({"name": f"tool {n}", "description": "d" * 300} for n in range(1_000)))
    assert found["count"] == 1_000
    assert found["cut"] is True
    assert 100 < len(found["tools"]) < 1_000
    assert MAX_CONTENT_BYTES - 500 < len(encode(found)) <= MAX_CONTENT_BYTES


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.text(min_size=1, max_size=200)}, optional={"description": st.text(max_size=300) | st.none()}
        ),
        max_size=30,
    ),
    st.integers(1, 20),
)
def test_the_content_always_fits_into_an_event(tools: list[dict[str, Any]], times: int) -> None:
    """Whatever the Computer answers."""
    found = tools_content({"tools": tools * times})
    assert found is not None
    assert len(encode(found)) <= MAX_CONTENT_BYTES
    assert (len(found["tools"]) < found["count"]) == ("cut" in found)


def test_hostile_input_is_not_slow() -> None:
    """Up to the size of a frame."""
    for tools in ([{"name": "x"}] * 80_000, [{"name": "\x1b[" + "0" * 900_000, "description": "\n" * 100_000}]):
        began = time.process_time()
        assert tools_content({"tools": tools}) is not None
        assert time.process_time() - began < 1
