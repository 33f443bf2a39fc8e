"""Templates of membership events: making and completing them."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.membership_event import (
    AUTHORISER,
    InvalidTemplate,
    MembershipChange,
    complete_template,
    require_allowed_by_acl,
    require_own_user,
    require_supported_version,
)
from tests.federation.standing import NOW, VERSIONS, denying, offered
from tests.support.rooms import ALICE, BOB, Room, public_room, signer

every_version = pytest.mark.parametrize("version", VERSIONS)


def requested(room: Room, user: str = BOB, membership: str = "join", **content: Any) -> MembershipChange:
    return MembershipChange(room.room_id, user, membership, content)


@every_version
def test_a_template_becomes_an_event_that_the_room_allows(version: str) -> None:
    """The joining server completes and signs the template, and the auth rules allow the event."""
    room = public_room(version)
    answer = offered(requested(room), room)
    assert answer["room_version"] == version
    made = complete_template(answer, requested(room, displayname="Bob"), signer("b.example"), NOW + 5)
    assert isinstance(made, tuple)
    event, known_version = made
    assert known_version is ROOM_VERSIONS[version]
    assert event.content == {"membership": "join", "displayname": "Bob"}
    assert event.origin_server_ts == NOW + 5
    assert event.depth == room.head[0].depth + 1
    assert event.prev_events == (room.head[0].event_id,)
    assert room.verdict(event) == room.verdict(room.propose("m.room.member", BOB, {"membership": "join"}, BOB))
    room.add(event)
    assert room.state()["m.room.member", BOB] == event


def test_a_server_that_the_acl_denies() -> None:
    """A room without an ACL denies no server."""
    room = public_room("11")
    require_allowed_by_acl(room.state(), "b.example")
    denying(room)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        require_allowed_by_acl(room.state(), "b.example")
    require_allowed_by_acl(room.state(), "c.example")


def test_a_server_makes_requests_for_its_own_users() -> None:
    """userId "MUST be a user ID on the origin server"."""
    require_own_user(BOB, "b.example")
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        require_own_user(BOB, "c.example")


def test_a_version_that_the_requester_does_not_support() -> None:
    """400 with the room's version; a server that lists none supports version 1."""
    require_supported_version(ROOM_VERSIONS["12"], ["11", "12"])
    for supported in ([], ["1", "11"]):
        with pytest.raises(MatrixError) as refused:
            require_supported_version(ROOM_VERSIONS["12"], supported)
        assert refused.value.body()["errcode"] == "M_INCOMPATIBLE_ROOM_VERSION"
        assert (refused.value.status, refused.value.body()["room_version"]) == (400, "12")


def broken(answer: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "event": {**answer["event"], **change}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"room_id": "!other:a.example"}, "room_id"),
        ({"type": "m.room.power_levels"}, "type"),
        ({"sender": ALICE}, "sender"),
        ({"state_key": ALICE}, "state_key"),
        ({"content": {"membership": "leave"}}, "membership"),
        ({"content": []}, "membership"),
        ({"auth_events": [1]}, "auth_events"),
        ({"prev_events": "all"}, "prev_events"),
        ({"depth": True}, "depth"),
        ({"depth": -1}, "depth"),
        ({"depth": 2**60}, "canonical"),
        ({"depth": 1.5}, "canonical"),
    ],
)
def test_a_template_for_something_else_is_not_signed(change: dict[str, Any], problem: str) -> None:
    """In case any of the checks fail, "the response MUST be treated as malformed and discarded"."""
    room = public_room("11")
    answer = broken(offered(requested(room), room), change)
    wrong = complete_template(answer, requested(room), signer("b.example"), NOW)
    assert isinstance(wrong, InvalidTemplate)
    assert problem in wrong.problem


def test_a_response_without_a_template() -> None:
    """No event, or an invalid version; a missing one means version 1."""
    room = public_room("11")
    answer = offered(requested(room), room)
    for broken_answer in ({**answer, "event": None}, {**answer, "room_version": 11}, {"event": answer["event"]}):
        assert isinstance(complete_template(broken_answer, requested(room), signer("b.example"), NOW), InvalidTemplate)


def test_other_fields_of_a_template_are_not_signed() -> None:
    """Only the authoriser is copied from the content, and no other key. Otherwise the resident server could
    obtain our signature on anything."""
    room = public_room("11")
    answer = offered(requested(room), room)
    content = {"membership": "join", "displayname": "Fool", AUTHORISER: ALICE}
    answer = broken(answer, {"content": content, "redacts": "$x", "unsigned": {"age": 1}})
    made = complete_template(answer, requested(room), signer("b.example"), NOW)
    assert isinstance(made, tuple)
    assert made[0].content == {"membership": "join", AUTHORISER: ALICE}
    assert not {"redacts", "unsigned"} & made[0].event.keys()


def test_an_authoriser_is_only_copied_into_a_join() -> None:
    """In a leave the key has no meaning, so it is not signed."""
    room = public_room("11", BOB)
    leaving = requested(room, membership="leave")
    answer = broken(offered(leaving, room), {"content": {"membership": "leave", AUTHORISER: ALICE}})
    made = complete_template(answer, leaving, signer("b.example"), NOW)
    assert isinstance(made, tuple)
    assert made[0].content == {"membership": "leave"}


def test_the_event_is_signed_by_the_joining_server() -> None:
    """And by no other server."""
    room = public_room("12")
    made = complete_template(offered(requested(room), room), requested(room), signer("b.example"), NOW)
    assert isinstance(made, tuple)
    assert isinstance(made[0], Pdu)
    assert set(made[0].signatures) == {"b.example"}
