"""Knocking through another server, and accepting knocks."""

import pytest

from federation.matrix.errors import MatrixError
from federation.memberships.leave_and_knock import check_make_knock, knock, knock_response
from federation.memberships.membership_event import MembershipChange
from federation.memberships.remote_membership import HandshakeResult, SendRequest, TemplateRequest
from tests.federation.standing import NOW, VERSIONS, denying, offered
from tests.support.rooms import ALICE, BOB, CAROL, Room, signer


def room_with_knocking(version: str) -> Room:
    room = Room(version)
    room.join(ALICE)
    room.join_rule(ALICE, "knock")
    room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
    return room


@pytest.mark.parametrize("version", VERSIONS)
def test_a_complete_knock(version: str) -> None:
    """The response has the stripped state, including the create event."""
    room = room_with_knocking(version)
    handshake = knock(room.room_id, BOB, {"reason": "hungry"}, ["a.example"], signer("b.example"), NOW)
    assert next(handshake) == TemplateRequest("a.example")
    request = handshake.send(offered(MembershipChange(room.room_id, BOB, "knock", {}), room))
    assert isinstance(request, SendRequest)
    assert request.event.content == {"membership": "knock", "reason": "hungry"}
    room.add(request.event)
    with pytest.raises(StopIteration) as end:
        handshake.send(knock_response(room.state()))
    done = end.value.value
    assert isinstance(done, HandshakeResult)
    assert done.result.problem is None
    assert [shown["type"] for shown in done.result.stripped] == ["m.room.create", "m.room.name", "m.room.join_rules"]


def test_invalid_stripped_state_does_not_fail_a_knock() -> None:
    """The knock was accepted, so no other server is tried."""
    room = room_with_knocking("11")
    handshake = knock(room.room_id, BOB, {}, ["a.example", "c.example"], signer("b.example"), NOW)
    next(handshake)
    handshake.send(offered(MembershipChange(room.room_id, BOB, "knock", {}), room))
    with pytest.raises(StopIteration) as end:
        handshake.send({})
    assert isinstance(end.value.value, HandshakeResult)
    assert end.value.value.result.problem == "there is no list of events"


def test_each_check_of_make_knock() -> None:
    """Another server's user, an ACL, and the version."""
    room = room_with_knocking("11")

    def check(user: str, *versions: str) -> None:
        check_make_knock(user, room.state(), room.version, origin="b.example", versions=versions)

    check(BOB, "10", "11")
    with pytest.raises(MatrixError, match="own users"):
        check(CAROL, "11")
    with pytest.raises(MatrixError, match="400 M_INCOMPATIBLE_ROOM_VERSION"):
        check(BOB, "10")
    denying(room)
    with pytest.raises(MatrixError, match="server_acl"):
        check(BOB, "11")
