"""The children of a space and their order."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.directory.spaces import MAX_BYTES, MAX_CHILDREN, children_of, parse_children, via_of
from tests.support.rooms import ALICE, Room, public_room

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
VIA = {"via": ["a.example"]}


def child(name: str, content: dict[str, Any] | None = None, time: int = 1) -> dict[str, Any]:
    return {
        "type": "m.space.child",
        "state_key": f"!{name}:a.example",
        "sender": ALICE,
        "content": {**VIA, **(content or {})},
        "origin_server_ts": time,
    }


def names(children: Any) -> str:
    return "".join(one["state_key"][1] for one in children)


def put(room: Room, name: str, content: dict[str, Any]) -> None:
    room.send("m.space.child", ALICE, content, f"!{name}:a.example")


def test_child_events_are_stripped() -> None:
    """With timestamps and without signatures."""
    room = public_room("12", type="m.space")
    put(room, "a", {**VIA, "io.ezagent.channel": "news"})
    event = room.state()["m.space.child", "!a:a.example"]
    assert children_of([event]) == [
        {
            "type": "m.space.child",
            "state_key": "!a:a.example",
            "sender": ALICE,
            "content": {"via": ["a.example"], "io.ezagent.channel": "news"},
            "origin_server_ts": event.origin_server_ts,
        }
    ]
    assert via_of(children_of([event])[0]) == ("a.example",)


@pytest.mark.parametrize("via", [None, [], "a.example", ["a.example", 5], {"a.example": 1}])
def test_an_event_without_via_is_no_child(via: object) -> None:
    """This includes redacted events."""
    assert parse_children([child("a", {"via": via})]) == []
    room = public_room("12")
    put(room, "a", {"via": via})
    assert children_of([room.state()["m.space.child", "!a:a.example"]]) == []


def test_the_order_of_children() -> None:
    """By valid `order`, then by timestamp, then by room id."""
    assert names(
        parse_children(
            [
                child("g", {"order": "x" * 51}, 3),
                child("f", {"order": "ä"}, 2),
                child("e", {"order": 5}, 2),
                child("d", {}, 1),
                child("c", {"order": "x" * 50}, 9),
                child("b", {"order": "~"}, 9),
                child("a", {"order": " a"}, 9),
                child("h", {"order": "\n"}, 4),
            ]
        )
    ) == "acbdefgh"  # fmt: skip


def test_suggested_only() -> None:
    """Only children with `suggested` true."""
    entries = [child("a", {"suggested": True}), child("b", {"suggested": 1}), child("c")]
    assert names(parse_children(entries, suggested_only=True)) == "a"
    assert names(parse_children(entries)) == "abc"


def test_the_number_and_size_of_children_are_limited() -> None:
    """Further children are left out."""
    assert len(parse_children([child(f"{number:04}") for number in range(MAX_CHILDREN + 1)])) == MAX_CHILDREN
    large = [child(name, {"x": "y" * (MAX_BYTES // 3)}) for name in "abcd"]
    assert names(parse_children(large)) == "ab"


def test_a_child_that_cannot_be_encoded_is_left_out() -> None:
    """Early room versions allow arbitrary numbers."""
    room = public_room("5")
    put(room, "a", {**VIA, "x": 2**70})
    put(room, "b", VIA)
    events = [pdu for key, pdu in room.state().items() if key[0] == "m.space.child"]
    assert names(children_of(events)) == "b"


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "m.space.parent"}, {"state_key": None}, {"state_key": "a"}, {"state_key": "!a\0:b"},
        {"sender": "alice"}, {"sender": 5}, {"content": []}, {"origin_server_ts": "1"},
        {"origin_server_ts": 1.5}, {"origin_server_ts": 2**60}, {"origin_server_ts": True},
    ],
)  # fmt: skip
def test_invalid_children_are_left_out(changed: dict[str, Any]) -> None:
    """The others stay."""
    entries = [{**child("a"), **changed}, 5, child("b")]
    assert names(parse_children(entries)) == "b"


@given(
    JSON
    | st.lists(
        st.dictionaries(st.sampled_from(["state_key", "sender", "content", "origin_server_ts"]), JSON).map(
            lambda changed: {**child("a"), **changed}
        )
    )
)
def test_any_entry_is_left_out_or_can_be_encoded(entries: object) -> None:
    """With arbitrary input."""
    assert orjson.dumps(parse_children(entries)) is not None


def test_a_deeply_nested_child_is_left_out() -> None:
    """It could not be encoded within a response."""
    deep: Any = 1
    for _ in range(120):
        deep = [deep]
    assert names(parse_children([child("a", {"x": deep}), child("b")])) == "b"
