"""Which events make a room the child of a space, and in which order."""

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


def test_the_events_of_a_room_are_shown_stripped() -> None:
    """With the time of each, and without their signatures."""
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
def test_without_servers_to_go_through_there_is_no_child(via: object) -> None:
    """So it is with an event that was redacted."""
    assert parse_children([child("a", {"via": via})]) == []
    room = public_room("12")
    put(room, "a", {"via": via})
    assert children_of([room.state()["m.space.child", "!a:a.example"]]) == []


def test_children_have_an_order() -> None:
    """By `order` where it is valid; then by time; then by room id."""
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


def test_only_suggested_ones_are_chosen_when_asked_for() -> None:
    """`suggested` is true and nothing else."""
    entries = [child("a", {"suggested": True}), child("b", {"suggested": 1}), child("c")]
    assert names(parse_children(entries, suggested_only=True)) == "a"
    assert names(parse_children(entries)) == "abc"


def test_no_more_are_shown_than_fit() -> None:
    """In number and in size."""
    assert len(parse_children([child(f"{number:04}") for number in range(MAX_CHILDREN + 1)])) == MAX_CHILDREN
    large = [child(name, {"x": "y" * (MAX_BYTES // 3)}) for name in "abcd"]
    assert names(parse_children(large)) == "ab"


def test_a_child_that_nobody_could_read_is_left_out() -> None:
    """Early room versions allow numbers without end."""
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
def test_what_is_no_child_is_left_out(changed: dict[str, Any]) -> None:
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
def test_hostile_entries_are_left_out_or_can_be_passed_on(entries: object) -> None:
    """Whatever they hold."""
    assert orjson.dumps(parse_children(entries)) is not None


def test_a_deep_entry_is_left_out() -> None:
    """Nobody could write it within an answer."""
    deep: Any = 1
    for _ in range(120):
        deep = [deep]
    assert names(parse_children([child("a", {"x": deep}), child("b")])) == "b"
