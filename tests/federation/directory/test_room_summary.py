"""Room summaries and access to rooms."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.directory.room_summary import SUMMARY_STATE, RoomSummary, is_reported_open, parse_summary, summarise
from tests.support.rooms import ALICE, BOB, Room, public_room

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def summary(room: Room, members: int = 2) -> RoomSummary:
    state = {key: pdu for key, pdu in room.state().items() if key in SUMMARY_STATE}
    return summarise(room.version, state, members)


def test_the_summary_of_a_minimal_room() -> None:
    """Members, version and join rule."""
    room = public_room("12", BOB)
    assert summary(room).fields == {
        "room_id": room.room_id,
        "room_version": "12",
        "num_joined_members": 2,
        "world_readable": False,
        "guest_can_join": False,
        "join_rule": "public",
    }


def test_the_summary_of_a_room_with_all_fields() -> None:
    """Each from its state event."""
    room = public_room("12", type="m.space")
    for type_, content in (
        ("m.room.name", {"name": "Kitchen"}),
        ("m.room.topic", {"topic": "Soup"}),
        ("m.room.canonical_alias", {"alias": "#kitchen:a.example"}),
        ("m.room.avatar", {"url": "mxc://a.example/soup"}),
        ("m.room.history_visibility", {"history_visibility": "world_readable"}),
        ("m.room.guest_access", {"guest_access": "can_join"}),
        ("m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}),
    ):
        room.send(type_, ALICE, content, "")
    made = summary(room)
    assert made.is_space
    assert made.fields == {
        "room_id": room.room_id,
        "room_version": "12",
        "num_joined_members": 2,
        "world_readable": True,
        "guest_can_join": True,
        "join_rule": "public",
        "name": "Kitchen",
        "topic": "Soup",
        "canonical_alias": "#kitchen:a.example",
        "avatar_url": "mxc://a.example/soup",
        "room_type": "m.space",
        "encryption": "m.megolm.v1.aes-sha2",
    }


def test_fields_of_the_wrong_type_are_left_out() -> None:
    """State events may contain anything."""
    room = public_room("11", type=["m.space"])
    for type_, content in (
        ("m.room.name", {"name": 5}),
        ("m.room.topic", {"topic": ""}),
        ("m.room.canonical_alias", {"alias": "kitchen"}),
        ("m.room.avatar", {}),
        ("m.room.history_visibility", {"history_visibility": ["world_readable"]}),
        ("m.room.join_rules", {"join_rule": 5}),
    ):
        room.send(type_, ALICE, content, "")
    made = summary(room)
    assert set(made.fields) == {
        "room_id", "room_version", "num_joined_members", "world_readable", "guest_can_join", "join_rule",
    }  # fmt: skip
    assert made.fields["join_rule"] == "invite"
    assert not made.is_open
    assert not made.is_space


@pytest.mark.parametrize(
    ("version", "rule", "is_open"),
    [
        ("10", "public", True),
        ("10", "invite", False),
        ("10", "knock", True),
        ("6", "knock", False),
        ("10", "knock_restricted", True),
        ("9", "knock_restricted", False),
        ("10", "restricted", False),
        ("10", "private", False),
    ],
)
def test_join_rules_depend_on_the_room_version(version: str, rule: str, is_open: bool) -> None:
    """A rule that the version does not define admits nobody."""
    room = public_room(version)
    room.join_rule(ALICE, rule)
    assert summary(room).is_open is is_open
    room.send("m.room.history_visibility", ALICE, {"history_visibility": "world_readable"}, "")
    assert summary(room).is_open


def test_allowed_rooms_of_a_restricted_join_rule() -> None:
    """Conditions other than rooms are ignored."""
    room = public_room("10")
    allow = [
        {"type": "m.room_membership", "room_id": "!space:a.example"},
        {"type": "m.room_membership", "room_id": "nothing"},
        {"type": "org.other"},
        5,
    ]
    room.send("m.room.join_rules", ALICE, {"join_rule": "restricted", "allow": allow}, "")
    made = summary(room)
    assert made.fields["allowed_room_ids"] == ["!space:a.example"]
    assert made.allowed_by == ("!space:a.example",)
    room.send("m.room.join_rules", ALICE, {"join_rule": "invite", "allow": allow}, "")
    assert "allowed_room_ids" not in summary(room).fields


def test_some_servers_are_excluded() -> None:
    """By the server ACL or by `m.federate`."""
    room = public_room("11")
    room.send("m.room.server_acl", ALICE, {"allow": ["*"], "deny": ["evil.*"]}, "")
    assert summary(room).excludes("evil.example")
    assert not summary(room).excludes("b.example")
    closed = summary(public_room("11", **{"m.federate": False}))
    assert closed.excludes("b.example")
    assert not closed.excludes("a.example")


def test_a_remote_summary_is_parsed() -> None:
    """Fields of the wrong type and unknown fields are left out."""
    entry = {
        "room_id": "!r:b.example",
        "num_joined_members": 5,
        "world_readable": True,
        "guest_can_join": "yes",
        "name": "Kitchen",
        "topic": ["Soup"],
        "join_rule": "restricted",
        "room_type": None,
        "allowed_room_ids": ["!a:b.example", 5, "x"],
        "aliases": ["#a:b.example"],
    }
    assert parse_summary(entry) == {
        "room_id": "!r:b.example",
        "num_joined_members": 5,
        "world_readable": True,
        "guest_can_join": False,
        "name": "Kitchen",
        "join_rule": "restricted",
        "allowed_room_ids": ["!a:b.example"],
    }


@given(JSON | st.dictionaries(st.sampled_from(["room_id", "num_joined_members", "name", "join_rule"]), JSON))
def test_any_summary_can_be_encoded_or_is_refused(entry: Any) -> None:
    """With arbitrary input."""
    if isinstance(entry, dict):
        said = parse_summary({"room_id": "!r:b.example", **entry})
        assert said is None or orjson.dumps(said)
        if said is not None:
            assert 0 <= said["num_joined_members"] < 2**53
            assert is_reported_open(said) in (True, False)
    else:
        assert parse_summary(entry) is None


@pytest.mark.parametrize(
    ("said", "is_open"),
    [
        ({}, True),
        ({"join_rule": "public"}, True),
        ({"join_rule": "knock"}, True),
        ({"join_rule": "knock_restricted"}, True),
        ({"join_rule": "restricted"}, False),
        ({"join_rule": "invite"}, False),
        ({"join_rule": "invite", "world_readable": True}, True),
    ],
)
def test_the_join_rule_of_a_remote_summary(said: dict[str, Any], is_open: bool) -> None:
    """Without one the room counts as public."""
    read = parse_summary({"room_id": "!r:b.example", **said})
    assert read is not None
    assert is_reported_open(read) is is_open
