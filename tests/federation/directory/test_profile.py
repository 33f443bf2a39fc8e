"""Profiles: fields, limits and member events."""

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


def test_fields_are_set_and_removed() -> None:
    """Other fields stay. An empty display name or avatar is removed; other fields may be empty."""
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
def test_invalid_fields_are_refused(changes: dict[str, Any], errcode: str) -> None:
    """Each limit has its errcode."""
    with pytest.raises(MatrixError, match=errcode):
        apply_changes({}, changes)


def test_limits_are_inclusive() -> None:
    """The longest display name, avatar, key and profile are allowed; so is text that only looks like NUL."""
    assert apply_changes({}, {"displayname": "ä" * 256, "avatar_url": "x" * 1000, "a" * 255: 1})
    whole = {"m.note": "x" * (MAX_BYTES - len('{"m.note":""}'))}
    assert apply_changes({}, whole) == whole
    assert apply_changes({}, {"m.note": "\\u0000"}) == {"m.note": "\\u0000"}


@given(st.dictionaries(st.text(max_size=5) | st.sampled_from(["displayname", "avatar_url"]), JSON))
def test_any_field_is_refused_or_can_be_encoded(changes: dict[str, Any]) -> None:
    """With arbitrary input."""
    with contextlib.suppress(MatrixError):
        assert len(encode(apply_changes({}, changes))) <= MAX_BYTES


def test_member_content_is_updated_when_the_profile_differs() -> None:
    """Other fields of the content stay, except those of one event only."""
    profile = {"displayname": "Ada", "m.tz": "UTC"}
    assert updated_member_content({"membership": "join", "displayname": "Ada"}, profile) is None
    assert updated_member_content({"membership": "join", "displayname": "Ada", "avatar_url": None}, profile) is None
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


def test_profile_queries_are_parsed() -> None:
    """The user id must be valid; any field may be requested."""
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


def test_remote_profiles_are_parsed() -> None:
    """Invalid values are left out; a profile that is too large is refused."""
    answer = {"displayname": 5, "avatar_url": "mxc://a/b", "m.tz": "UTC", "x": 1.5, "y": 2**70}
    assert parse_profile(answer) == {"avatar_url": "mxc://a/b", "m.tz": "UTC"}
    assert parse_profile({}) == {}
    assert parse_profile({"m.note": "x" * MAX_BYTES}) is None


@given(st.dictionaries(st.text(max_size=5), JSON))
def test_any_remote_profile_can_be_parsed(answer: dict[str, Any]) -> None:
    """And the result can be encoded."""
    profile = parse_profile(answer)
    assert profile is None or encode(profile)
