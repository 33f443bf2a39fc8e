"""Rejecting an invite through another server."""

import pytest

from federation.matrix.errors import MatrixError
from federation.memberships.leave_and_knock import check_make_leave, leave
from federation.memberships.membership_event import MembershipChange
from federation.memberships.remote_membership import HandshakeResult, SendRequest, TemplateRequest
from tests.federation.standing import NOW, VERSIONS, denying, invited, offered
from tests.support.rooms import BOB, CAROL, signer


@pytest.mark.parametrize("version", VERSIONS)
def test_an_invite_is_rejected(version: str) -> None:
    """Through the inviting server, with a reason; the response is an empty object."""
    room = invited(version)
    handshake = leave(room.room_id, BOB, {"reason": "busy"}, ["a.example"], signer("b.example"), NOW)
    assert next(handshake) == TemplateRequest("a.example")
    request = handshake.send(offered(MembershipChange(room.room_id, BOB, "leave", {}), room))
    assert isinstance(request, SendRequest)
    with pytest.raises(StopIteration) as end:
        handshake.send({})
    assert isinstance(end.value.value, HandshakeResult)
    assert request.event.content == {"membership": "leave", "reason": "busy"}
    room.add(request.event)
    assert room.state()["m.room.member", BOB].membership == "leave"


def test_each_check_of_make_leave() -> None:
    """Another server's user, and an ACL."""
    check_make_leave(BOB, invited("11").state(), "b.example")
    with pytest.raises(MatrixError, match="own users"):
        check_make_leave(CAROL, invited("11").state(), "b.example")
    with pytest.raises(MatrixError, match="server_acl"):
        check_make_leave(BOB, denying(invited("11")).state(), "b.example")
