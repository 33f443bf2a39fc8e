"""The room directory: requests, search and pages, and directories of other servers."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.directory.public_rooms import (
    MAX_BYTES,
    MAX_ROOMS,
    RoomsQuery,
    encode_body,
    encode_query,
    from_body,
    from_query,
    is_listed,
    is_search,
    page,
    parse_page,
)
from federation.directory.room_summary import RoomSummary
from federation.matrix.errors import MatrixError
from federation.rooms.server_acl import NO_ACL, server_acl

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["limit", "since", "filter", "third_party_instance_id", "include_all_networks"]


def room(name: str, members: int = 1, /, **said: Any) -> RoomSummary:
    every = {"world_readable": False, "guest_can_join": False, "join_rule": "public"}
    given = {"room_id": f"!{name}:a.example", "num_joined_members": members, **every, **said}
    return RoomSummary(given, is_open=True, allowed_by=(), acl=NO_ACL, only_server=None)


def names(answer: dict[str, Any]) -> str:
    return "".join(entry["room_id"][1:].partition(":")[0] for entry in answer["chunk"])


def paginated(rooms: Sequence[RoomSummary], limit: int, direction: str = "next_batch", start: str = "") -> list[str]:
    """Return all pages."""
    pages = []
    since: str | None = start
    while since is not None:
        answer = page(rooms, from_body({"limit": limit, "since": since}))
        pages.append(names(answer))
        since = answer.get(direction)
    return pages


def test_the_largest_rooms_come_first() -> None:
    """Rooms of equal size are sorted by id; fields for spaces are left out."""
    rooms = [room("a", 1, room_version="12"), room("c", 5, name="C"), room("b", 5), room("d", 9)]
    answer = page(rooms, RoomsQuery())
    assert names(answer) == "dbca"
    assert answer["total_room_count_estimate"] == 4
    assert set(answer) == {"chunk", "total_room_count_estimate"}
    assert answer["chunk"][2] == {
        "room_id": "!c:a.example", "num_joined_members": 5, "world_readable": False, "guest_can_join": False,
        "join_rule": "public", "name": "C",
    }  # fmt: skip
    assert "room_version" not in answer["chunk"][3]


def test_pagination_works_in_both_directions() -> None:
    """No room is repeated or missing."""
    rooms = [room(name, members) for name, members in zip("abcdefg", (7, 6, 6, 6, 3, 2, 1), strict=True)]
    assert paginated(rooms, 3) == ["abc", "def", "g"]
    assert paginated(rooms, 7) == ["abcdefg"]
    last = page(rooms, from_body({"limit": 3, "since": "n2!f:a.example"}))
    assert names(last) == "g"
    assert paginated(rooms, 3, "prev_batch", last["prev_batch"]) == ["def", "abc"]
    first = page(rooms, from_body({"limit": 3, "since": "p6!d:a.example"}))
    assert names(first) == "abc"
    assert names(page(rooms, from_body({"limit": 3, "since": first["next_batch"]}))) == "def"


def test_pagination_survives_changes() -> None:
    """A removed room, all rooms removed, new rooms."""
    rooms = [room(name, 5) for name in "abcd"]
    token = page(rooms, RoomsQuery(limit=2))["next_batch"]
    assert names(page([rooms[0], rooms[3]], from_body({"since": token}))) == "d"
    behind = page(rooms[:1], from_body({"since": token}))
    assert behind["chunk"] == []
    assert names(page(rooms[:1], from_body({"since": behind["prev_batch"]}))) == "a"
    before = page(rooms[2:], from_body({"since": "p6!x:a.example"}))
    assert before["chunk"] == []
    assert names(page(rooms[2:], from_body({"since": before["next_batch"]}))) == "cd"


@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 3)), unique_by=lambda one: one[0]),
    st.integers(1, 4),
)
def test_pagination_lists_each_room_once(given_: list[tuple[str, int]], limit: int) -> None:
    """For any room sizes and page sizes, in both directions."""
    rooms = [room(name, members) for name, members in given_]
    expected = names(page(rooms, RoomsQuery()))
    assert "".join(paginated(rooms, limit)) == expected
    backwards = paginated(rooms, limit, "prev_batch", "p0~")
    assert "".join(reversed(backwards)) == expected


def test_the_size_of_a_page_is_limited() -> None:
    """Topics may be as long as events; a single room always fits."""
    rooms = [room(name, topic="x" * (MAX_BYTES // 3)) for name in "abcde"] + [room("f", topic="x" * MAX_BYTES)]
    assert paginated(rooms, 100) == ["ab", "cd", "e", "f"]


def test_a_search_matches_all_words() -> None:
    """In name, topic or alias, in any case and order; not in the id."""
    rooms = [
        room("a", name="Soup Kitchen", topic="Tomatoes"),
        room("b", canonical_alias="#kitchen:a.example"),
        room("kitchen"),
    ]

    def found(term: str) -> str:
        return names(page(rooms, from_body({"filter": {"generic_search_term": term}})))

    assert found("KITCHEN") == "ab"
    assert found("kitchen tomatoes") == "a"
    assert found("nothing") == ""
    assert found("  ") == "abkitchen"


def test_rooms_are_filtered_by_type() -> None:
    """None matches rooms without a type."""
    rooms = [room("a", room_type="m.space"), room("b"), room("c", room_type="io.a2c.office")]
    for types, expected in (
        (["m.space"], "a"), ([None], "b"), (["m.space", None], "ab"), ([], ""), (None, "abc"),
    ):  # fmt: skip
        assert names(page(rooms, from_body({"filter": {"room_types": types}}))) == expected


def test_third_party_networks_have_no_rooms() -> None:
    """This server has none."""
    assert page([room("a")], from_query({"third_party_instance_id": "irc"}))["chunk"] == []


def test_limits_are_capped() -> None:
    """0 means no limit."""
    for query in ({}, {"limit": "0"}, {"limit": "1000"}, {"limit": "9" * 18}):
        assert from_query(query).limit == MAX_ROOMS
    assert from_query({"limit": "5"}).limit == 5
    assert from_body({}).limit == from_body({"limit": 2**70}).limit == MAX_ROOMS


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "-1"}, {"limit": "x"}, {"limit": "٣"}, {"limit": "9" * 19}, {"since": "x"}, {"since": "n"},
        {"since": "n-1!a:b"}, {"since": "p1" + "x" * 256},
    ],
)  # fmt: skip
def test_invalid_queries_are_refused(query: dict[str, str]) -> None:
    """As invalid parameters."""
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        from_query(query)


@pytest.mark.parametrize(
    ("body", "errcode"),
    [
        ([], "M_BAD_JSON"),
        (None, "M_BAD_JSON"),
        ({"limit": "5"}, "M_BAD_JSON"),
        ({"limit": True}, "M_BAD_JSON"),
        ({"limit": -5}, "M_INVALID_PARAM"),
        ({"filter": []}, "M_BAD_JSON"),
        ({"since": 5}, "M_BAD_JSON"),
        ({"since": "x"}, "M_INVALID_PARAM"),
        ({"filter": {"generic_search_term": 5}}, "M_BAD_JSON"),
        ({"filter": {"generic_search_term": "x" * 1001}}, "M_INVALID_PARAM"),
        ({"filter": {"room_types": "m.space"}}, "M_BAD_JSON"),
        ({"filter": {"room_types": [5]}}, "M_BAD_JSON"),
        ({"filter": {"room_types": ["x"] * 101}}, "M_INVALID_PARAM"),
    ],
)
def test_invalid_bodies_are_refused(body: object, errcode: str) -> None:
    """With an error for the field."""
    with pytest.raises(MatrixError, match=f"400 {errcode}"):
        from_body(body)


@given(JSON | st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_request_is_answered_or_refused(body: object) -> None:
    """No other exception is raised."""
    try:
        question = from_body(body)
    except MatrixError:
        return
    assert orjson.dumps(page([room("a"), room("b")], question))


@given(st.text(max_size=20).map(lambda text: "n1" + text) | st.text(max_size=20))
def test_any_token_is_accepted_or_refused(token: str) -> None:
    """Tokens are only compared."""
    try:
        question = from_query({"since": token})
    except MatrixError:
        return
    assert len(page([room("a"), room("b")], question)["chunk"]) in (0, 1, 2)


def test_visibility_of_a_room() -> None:
    """A closed room is never listed; a server sees no room that excludes it."""
    assert is_listed(room("a"), None)
    assert is_listed(room("a"), "b.example")
    shut = RoomSummary({}, is_open=True, allowed_by=(), acl=server_acl({"deny": ["*"]}), only_server=None)
    assert is_listed(shut, None)
    assert not is_listed(shut, "b.example")
    closed = RoomSummary({}, is_open=False, allowed_by=(), acl=NO_ACL, only_server=None)
    assert not is_listed(closed, None)


def test_requests_to_another_server() -> None:
    """A search has a body; tokens of the server are passed unchanged."""
    plain = from_query({"limit": "5", "since": "theirs", "third_party_instance_id": "irc"}, remote=True)
    assert not is_search(plain)
    assert encode_query(plain) == [("limit", "5"), ("since", "theirs"), ("third_party_instance_id", "irc")]
    filter_ = {"generic_search_term": "Soup now", "room_types": ["m.space", None]}
    search = from_body({"limit": 5, "since": "theirs", "filter": filter_}, remote=True)
    assert is_search(search)
    assert encode_body(search) == {
        "limit": 5,
        "since": "theirs",
        "filter": {"generic_search_term": "Soup now", "room_types": [None, "m.space"]},
    }
    with pytest.raises(MatrixError):
        from_query({"since": "x" * 1001}, remote=True)


def test_the_response_of_another_server_is_parsed() -> None:
    """Rooms without an id and invalid tokens and numbers are left out."""
    chunk = [{"room_id": "!a:b.example", "name": "A", "aliases": []}, {"name": "B"}, 5]
    answer = {"chunk": chunk, "next_batch": "n", "prev_batch": 5, "total_room_count_estimate": -1}
    assert parse_page(answer) == {
        "chunk": [
            {
                "room_id": "!a:b.example",
                "num_joined_members": 0,
                "world_readable": False,
                "guest_can_join": False,
                "name": "A",
            }
        ],
        "next_batch": "n",
    }
    assert parse_page({"chunk": [], "total_room_count_estimate": 7}) == {"chunk": [], "total_room_count_estimate": 7}
    assert parse_page({"chunk": {}}) is None
    assert parse_page({}) is None


@given(st.dictionaries(st.sampled_from(["chunk", "next_batch", "total_room_count_estimate"]), JSON))
def test_any_response_can_be_encoded_or_is_refused(answer: dict[str, Any]) -> None:
    """With arbitrary input."""
    read = parse_page(answer)
    assert read is None or orjson.dumps(read)
