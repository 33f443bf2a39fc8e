"""The tools of a Computer, as a room has them."""

import time
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.protocol.tools import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    MOST_BYTES,
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


def test_names_and_descriptions_are_told() -> None:
    """In one line each; of the rest there is the hash."""
    assert content(ADD) == {
        "hash": sha256(encode([ADD], strict=False)).hexdigest(),
        "count": 1,
        "tools": [{"name": "demo__add", "description": "Adds two numbers."}],
    }
    assert content() == {"hash": sha256(b"[]").hexdigest(), "count": 0, "tools": []}


def test_the_hash_is_of_everything() -> None:
    """It changes with a schema, and not with the order of its keys."""
    other = {**ADD, "params_schema": {"type": "object"}}
    assert content(ADD)["tools"] == content(other)["tools"]
    assert content(ADD)["hash"] != content(other)["hash"]
    assert content(ADD) == content(dict(reversed(ADD.items())))


def test_the_hash_is_that_of_canonical_json() -> None:
    """Of what has a canonical form, so that others come to the same."""
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
def test_what_is_no_tool_list_is_none(answer: object) -> None:
    """Nothing is made up for it."""
    assert tools_content(answer) is None


def test_what_is_nested_without_end_is_none() -> None:
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    assert tools_content({"tools": [{"name": "x", "params_schema": nested}]}) is None


def test_texts_are_cleaned_and_cut() -> None:
    """Whoever reads the state sees what is said, and nothing else."""
    [told] = content({"name": "n" * 500, "description": "a\u202eb\0c\x1b[31md\n\n" + "x " * 900})["tools"]
    assert told["name"] == "n" * (LONGEST_NAME - 1) + "…"
    assert told["description"].startswith("abcd x x")
    assert len(told["description"]) == LONGEST_DESCRIPTION
    for odd in (None, 5, ["x"]):
        assert content({"name": "x", "description": odd})["tools"] == [{"name": "x", "description": ""}]


def test_what_is_too_much_is_cut() -> None:
    """It says so, and how many there are."""
    found = content(*({"name": f"tool {n}", "description": "d" * 300} for n in range(1_000)))
    assert found["count"] == 1_000
    assert found["cut"] is True
    assert 100 < len(found["tools"]) < 1_000
    assert MOST_BYTES - 500 < len(encode(found)) <= MOST_BYTES


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.text(min_size=1, max_size=200)},
            optional={"description": st.text(max_size=300) | st.none()},
        ),
        max_size=30,
    ),
    st.integers(1, 20),
)
def test_it_always_fits(tools: list[dict[str, Any]], times: int) -> None:
    """Into an event, whatever it says."""
    found = tools_content({"tools": tools * times})
    assert found is not None
    assert len(encode(found)) <= MOST_BYTES
    assert (len(found["tools"]) < found["count"]) == ("cut" in found)


def test_hostile_input_is_not_slow() -> None:
    """As much of it as a frame holds."""
    for tools in (
        [{"name": "x"}] * 80_000,
        [{"name": "\x1b[" + "0" * 900_000, "description": "\n" * 100_000}],
    ):
        began = time.process_time()
        assert tools_content({"tools": tools}) is not None
        assert time.process_time() - began < 1
