"""Fields of profiles, their limits, and what rooms are told."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.directory.profile import (
    MAX_BYTES,
    apply_changes,
    parse_profile,
    parse_profile_query,
    updated_member_content,
)
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_fields_are_set_and_taken_out() -> None:
    """The others stay. An empty name is none; an empty value of another field is one."""
    profile = apply_changes({}, {"displayname": "Äda", "avatar_url": "mxc://a/b", "m.tz": "Europe/Berlin"})
    assert profile == {"displayname": "Äda", "avatar_url": "mxc://a/b", "m.tz": "Europe/Berlin"}
    assert apply_changes(profile, {"displayname": None, "never_there": None}) == {
        "avatar_url": "mxc://a/b",
        "m.tz": "Europe/Berlin",
    }
    assert apply_changes(profile, {"displayname": "", "avatar_url": "", "m.tz": ""}) == {"m.tz": ""}
    assert apply_changes({}, {"x.y-z_1": {"a": [1, True]}}) == {"x.y-z_1": {"a": [1, True]}}


@pytest.mark.parametrize(
    ("changes", "errcode"),
    [
        ({"displayname": "x" * 257}, "M_INVALID_PARAM"),
        ({"avatar_url": "x" * 1001}, "M_INVALID_PARAM"),
        ({"displayname": 5}, "M_INVALID_PARAM"),
        ({"displayname": ["x"]}, "M_INVALID_PARAM"),
        ({"displayname": "a\0b"}, "M_INVALID_PARAM"),
        ({"m.note": {"deep": ["\0"]}}, "M_INVALID_PARAM"),
        ({"m.note": {"\0": 1}}, "M_INVALID_PARAM"),
        ({"m.note": "\\\0"}, "M_INVALID_PARAM"),
        ({"m.note": 1.5}, "M_BAD_JSON"),
        ({"m.note": 2**53}, "M_BAD_JSON"),
        ({"m.note": "\ud800"}, "M_BAD_JSON"),
        ({"": 1}, "M_INVALID_PARAM"),
        ({"Name": 1}, "M_INVALID_PARAM"),
        ({"a b": 1}, "M_INVALID_PARAM"),
        ({"1a": 1}, "M_INVALID_PARAM"),
        ({"a" * 256: 1}, "M_KEY_TOO_LARGE"),
        ({"m.note": "x" * MAX_BYTES}, "M_PROFILE_TOO_LARGE"),
    ],
)
def test_what_no_profile_may_hold(changes: dict[str, Any], errcode: str) -> None:
    """Each limit has its errcode."""
    with pytest.raises(MatrixError, match=errcode):
        apply_changes({}, changes)


def test_the_limits_themselves_are_kept() -> None:
    """The longest name, picture, key and profile; and backslashes that only look like NUL."""
    assert apply_changes({}, {"displayname": "ä" * 256, "avatar_url": "x" * 1000, "a" * 255: 1})
    whole = {"m.note": "x" * (MAX_BYTES - len('{"m.note":""}'))}
    assert apply_changes({}, whole) == whole
    assert apply_changes({}, {"m.note": "\\u0000"}) == {"m.note": "\\u0000"}


@given(st.dictionaries(st.text(max_size=5) | st.sampled_from(["displayname", "avatar_url"]), JSON))
def test_hostile_fields_are_refused_or_can_be_written(changes: dict[str, Any]) -> None:
    """Whatever comes."""
    with contextlib.suppress(MatrixError):
        assert len(encode(apply_changes({}, changes))) <= MAX_BYTES


def test_rooms_are_told_what_has_changed() -> None:
    """And only then. What else the membership event says stays, but for what was about that event alone."""
    profile = {"displayname": "Ada", "m.tz": "UTC"}
    assert updated_member_content({"membership": "join", "displayname": "Ada"}, profile) is None
    assert (
        updated_member_content({"membership": "join", "displayname": "Ada", "avatar_url": None}, profile)
        is None
    )
    before = {
        "membership": "join",
        "displayname": "Old",
        "avatar_url": "mxc://a/old",
        "io.a2c.role": "agent",
        "reason": "soup",
        "join_authorised_via_users_server": "@bob:b.example",
    }
    assert updated_member_content(before, profile) == {
        "membership": "join",
        "displayname": "Ada",
        "io.a2c.role": "agent",
    }
    assert updated_member_content(before, {}) == {"membership": "join", "io.a2c.role": "agent"}


def test_the_question_of_a_server() -> None:
    """The user must be one, wherever he lives; any field may be asked for."""
    assert parse_profile_query({"user_id": "@Ädä:b.example", "field": "m.tz"}) == ("@Ädä:b.example", "m.tz")
    assert parse_profile_query({"user_id": "@a:b.example"}) == ("@a:b.example", None)
    for query, errcode in (
        ({}, "M_MISSING_PARAM"),
        ({"user_id": ""}, "M_MISSING_PARAM"),
        ({"user_id": "alice"}, "M_INVALID_PARAM"),
        ({"user_id": "@a\0:b.example"}, "M_INVALID_PARAM"),
        ({"user_id": "@a:b.example" + "x" * 255}, "M_INVALID_PARAM"),
    ):
        with pytest.raises(MatrixError, match=errcode):
            parse_profile_query(query)


def test_another_servers_answer_is_read() -> None:
    """Names that are no text and numbers that nobody could sign are left out; too much is no profile."""
    answer = {"displayname": 5, "avatar_url": "mxc://a/b", "m.tz": "UTC", "x": 1.5, "y": 2**70}
    assert parse_profile(answer) == {"avatar_url": "mxc://a/b", "m.tz": "UTC"}
    assert parse_profile({}) == {}
    assert parse_profile({"m.note": "x" * MAX_BYTES}) is None


@given(st.dictionaries(st.text(max_size=5), JSON))
def test_any_answer_can_be_read(answer: dict[str, Any]) -> None:
    """And what was read can be written."""
    profile = parse_profile(answer)
    assert profile is None or encode(profile)
