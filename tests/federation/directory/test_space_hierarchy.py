"""One level of a space, and the walk through all levels."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.directory.room_summary import RoomSummary, parse_summary
from federation.directory.space_hierarchy import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ON_PAGE,
    MAX_ROOMS,
    Visit,
    VisitedRoom,
    encode_response,
    parse_query,
    parse_response,
    walk,
)
from federation.matrix.errors import MatrixError
from federation.rooms.server_acl import NO_ACL

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def id_of(name: str) -> str:
    return f"!{name}:a.example"


def child(name: str, time: int = 1) -> dict[str, Any]:
    return {
        "type": "m.space.child",
        "state_key": id_of(name),
        "sender": "@alice:a.example",
        "content": {"via": [f"{name.lower()}.example"]},
        "origin_server_ts": time,
    }


def said(name: str, **more: Any) -> dict[str, Any]:
    read = parse_summary({"room_id": id_of(name), **more})
    assert read is not None
    return read


def space(name: str, children: str, **how: Any) -> VisitedRoom:
    return VisitedRoom(said(name, room_type="m.space"), [child(one) for one in children], **how)


def walked(rooms: Mapping[str, VisitedRoom | None], root: str = "a", max_depth: int = MAX_DEPTH) -> list[Visit]:
    """Return all visits of a walk through these rooms; other rooms have no children."""
    talk = walk(id_of(root), ["a.example"], max_depth)
    looks = [next(talk)]
    try:
        while True:
            name = looks[-1].room_id[1:].partition(":")[0]
            looks.append(talk.send(rooms.get(name, VisitedRoom(said(name)))))
    except StopIteration:
        return looks


def path(looks: Sequence[Visit]) -> str:
    return "".join(look.room_id[1] for look in looks)


def test_the_walk_is_depth_first_and_in_order() -> None:
    """Each child is visited via the servers of its event."""
    looks = walked({"a": space("a", "bcd"), "c": space("c", "ef")})
    assert path(looks) == "abcefd"
    assert looks[3] == Visit(id_of("e"), ("e.example",), 2)


def test_each_room_is_visited_once() -> None:
    """Even if spaces contain each other or themselves."""
    assert path(walked({"a": space("a", "abcb"), "b": space("b", "ca"), "c": space("c", "abc")})) == "abc"


def test_children_of_a_skipped_room_are_not_visited() -> None:
    """Unless they are children of another room."""
    assert path(walked({"a": space("a", "bc"), "b": None, "c": space("c", "d")})) == "abcd"
    assert path(walked({"a": None})) == "a"


def test_the_depth_is_limited() -> None:
    """0 is the space alone; children of the last level are not requested."""
    rooms = {"a": space("a", "b"), "b": space("b", "c"), "c": space("c", "d")}
    assert path(walked(rooms, max_depth=0)) == "a"
    looks = walked(rooms, max_depth=2)
    assert path(looks) == "abc"
    assert [look.is_last for look in looks] == [False, False, True]


def test_reported_children_are_used() -> None:
    """They suffice for rooms that are no spaces and at the last level; inaccessible children are not
    visited."""
    heard = {id_of("b"): said("b"), id_of("c"): said("c", room_type="m.space")}
    rooms = {"a": space("a", "bcde", reported=heard, inaccessible=frozenset({id_of("d")}))}
    looks = walked(rooms)
    assert path(looks) == "abce"
    assert [look.is_report_sufficient for look in looks] == [False, True, False, False]
    looks = walked(rooms, max_depth=1)
    assert [look.is_report_sufficient for look in looks] == [False, True, True, False]


def test_the_number_of_visits_is_limited() -> None:
    """However many rooms there are."""
    talk = walk(id_of("0"), [], MAX_DEPTH)
    looks = [next(talk)]
    with contextlib.suppress(StopIteration):
        while True:
            start = len(looks) * 500
            children = [child(str(number)) for number in range(start, start + 500)]
            looks.append(talk.send(VisitedRoom(said("x"), children)))
    assert len(looks) == MAX_ROOMS
    assert max(look.depth for look in looks) == MAX_DEPTH


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4)), st.integers(0, 4))
def test_any_graph_is_walked(tangle: dict[str, list[str]], max_depth: int) -> None:
    """Each reachable room once."""
    rooms: dict[str, VisitedRoom | None] = {name: space(name, "".join(to)) for name, to in tangle.items()}
    found = path(walked(rooms, max_depth=max_depth))
    assert len(set(found)) == len(found)
    reachable = {"a"}
    for _ in range(max_depth):
        reachable |= {to for name in reachable for to in tangle.get(name, [])}
    assert set(found) <= reachable


def test_a_response_has_one_level() -> None:
    """The space with its child events, the children without theirs, and the inaccessible ones."""
    room = RoomSummary(said("a"), is_open=True, allowed_by=(), acl=NO_ACL, only_server=None)
    other = RoomSummary(said("b"), is_open=True, allowed_by=(), acl=NO_ACL, only_server=None)
    told = encode_response(room, [child("b"), child("c")], [other], [id_of("c")])
    assert told == {
        "room": {**said("a"), "children_state": [child("b"), child("c")]},
        "children": [said("b")],
        "inaccessible_children": [id_of("c")],
    }
    read = parse_response(told, id_of("a"), suggested_only=False)
    assert read == VisitedRoom(said("a"), [child("b"), child("c")], {id_of("b"): said("b")}, frozenset({id_of("c")}))
    assert read is not None
    assert read.as_json() == told["room"]


def test_the_size_of_a_response_is_limited() -> None:
    """The server requests further children one by one."""
    large = RoomSummary(said("b", topic="x" * MAX_BYTES), is_open=True, allowed_by=(), acl=NO_ACL, only_server=None)
    small = RoomSummary(said("a"), is_open=True, allowed_by=(), acl=NO_ACL, only_server=None)
    assert encode_response(small, [], [small, large, small], [])["children"] == [said("a")]


@pytest.mark.parametrize(
    "content", [{}, {"room": []}, {"room": {"room_id": "!b:a.example"}}, {"room": {"room_id": 5}}, {"room": {}}]
)
def test_a_response_about_another_room_is_refused(content: dict[str, Any]) -> None:
    """Or about none."""
    assert parse_response(content, id_of("a"), suggested_only=False) is None


@given(st.dictionaries(st.sampled_from(["children_state", "name", "children", "inaccessible_children"]), JSON))
def test_any_response_can_be_encoded_or_is_refused(parts: dict[str, Any]) -> None:
    """Invalid parts are left out."""
    content = {"room": {**parts, "room_id": id_of("a")}, **parts}
    seen = parse_response(content, id_of("a"), suggested_only=False)
    assert seen is not None
    assert orjson.dumps(seen.as_json())


def test_parameters_are_parsed() -> None:
    """Limits are capped; a token continues after the previous page."""
    first = parse_query(limit=None, max_depth=None, suggested_only=False, start=None)
    assert (first.limit, first.max_depth, first.after) == (MAX_ON_PAGE, MAX_DEPTH, 0)
    large = parse_query(limit=2**70, max_depth=2**70, suggested_only=True, start=None)
    assert (large.limit, large.max_depth) == (MAX_ON_PAGE, MAX_DEPTH)
    small = parse_query(limit=3, max_depth=0, suggested_only=True, start=None)
    assert (small.limit, small.max_depth, small.suggested_only) == (3, 0, True)
    second = parse_query(limit=5, max_depth=0, suggested_only=True, start=small.token(17))
    assert (second.after, second.limit) == (17, 5)


@pytest.mark.parametrize(
    "start", ["", "x", "1", "1.10", "1.10.1", "1.5.0", "01.10.0", "-1.10.0", "99999.10.0", "1.10.0x", "١.10.0"]
)
def test_invalid_tokens_are_refused(start: str) -> None:
    """Including tokens of a walk with other parameters."""
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        parse_query(limit=None, max_depth=None, suggested_only=False, start=start)


@pytest.mark.parametrize(("limit", "max_depth"), [(0, None), (-1, None), (None, -1)])
def test_invalid_limits_are_refused(limit: int | None, max_depth: int | None) -> None:
    """A page has at least one room, and a depth is not negative."""
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        parse_query(limit=limit, max_depth=max_depth, suggested_only=False, start=None)
