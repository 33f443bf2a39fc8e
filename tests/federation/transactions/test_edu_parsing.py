"""Parsing of arbitrary input as an EDU, and server ACLs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.rooms.server_acl import NO_ACL, server_acl
from federation.transactions.edu_parsing import MalformedEdu, apply_server_acls, parse_edu, rooms_of
from federation.transactions.edus import CustomEdu, Presence, Receipt, Receipts, Typing, UserPresence

BOB = "@bob:b.example"
ONE, TWO = "!one:a.example", "!two:a.example"
DENIED = server_acl({"allow": ["*"], "deny": ["b.example"]})
TYPES = ["m.typing", "m.receipt", "m.presence", "m.device_list_update", "m.direct_to_device", "m.signing_key_update"]
NAMES = ["room_id", "user_id", "push", "typing", "m.read", "messages", "sender", "type", "message_id", BOB, ONE]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(edu=st.fixed_dictionaries({"edu_type": st.sampled_from(TYPES), "content": JSON}) | JSON)
def test_no_input_raises(edu: Any) -> None:
    """Invalid input is `MalformedEdu`; it never raises."""
    parse_edu(edu, "b.example")


@pytest.mark.parametrize(
    "edu",
    [
        None,
        [],
        {},
        {"edu_type": "m.typing"},
        {"edu_type": 1, "content": {}},
        {"edu_type": "x" * 256, "content": {}},
        {"edu_type": "m.typing", "content": []},
    ],
)
def test_an_edu_is_an_object_with_a_type_and_a_content(edu: object) -> None:
    """Anything else is `MalformedEdu`."""
    assert isinstance(parse_edu(edu, "b.example"), MalformedEdu)


def test_an_unknown_type_is_a_custom_edu() -> None:
    """Unknown types do not fail; CIS nodes use one of their own."""
    assert parse_edu({"edu_type": "io.cis.agent.heartbeat", "content": {"a": 1}}, "b.example") == CustomEdu(
        "io.cis.agent.heartbeat", {"a": 1}
    )


def test_typing_is_dropped_where_the_acl_denies_its_server() -> None:
    """It is also dropped for a room that this server does not know."""
    typing = Typing(ONE, BOB, True)
    assert rooms_of(typing) == {ONE}
    assert apply_server_acls(typing, "b.example", {ONE: NO_ACL}) == typing
    assert apply_server_acls(typing, "b.example", {ONE: DENIED}) is None
    assert apply_server_acls(typing, "b.example", {}) is None


def test_receipts_are_filtered_room_by_room() -> None:
    """All receipts in a room that denies the server are dropped; those of other rooms stay."""
    one, two = Receipt(ONE, BOB, "$e", 1), Receipt(TWO, BOB, "$e", 1)
    receipts = Receipts((one, two))
    assert rooms_of(receipts) == {ONE, TWO}
    assert apply_server_acls(receipts, "b.example", {ONE: DENIED, TWO: NO_ACL}) == Receipts((two,))
    assert apply_server_acls(receipts, "b.example", {ONE: DENIED}) is None


def test_acls_do_not_apply_to_presence() -> None:
    """Presence belongs to no room."""
    presence = Presence((UserPresence(BOB, "online"),))
    assert rooms_of(presence) == frozenset()
    assert apply_server_acls(presence, "b.example", {}) == presence
