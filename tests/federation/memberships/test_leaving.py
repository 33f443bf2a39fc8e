"""Rejecting an invite and taking back a knock."""

import pytest

from federation.matrix.errors import MatrixError
from federation.memberships.leave_and_knock import leave, refuse_to_make_leave
from federation.memberships.membership_event import Wish
from federation.memberships.remote_membership import AskTemplate, Done, HandIn
from tests.federation.standing import NOW, VERSIONS, denying, invited, offered
from tests.support.rooms import BOB, CAROL, signer


@pytest.mark.parametrize("version", VERSIONS)
def test_an_invite_is_rejected(version: str) -> None:
    """Over the server that invited, with a reason; an empty object is the answer."""
    room = invited(version)
    talk = leave(room.room_id, BOB, {"reason": "busy"}, ["a.example"], signer("b.example"), NOW)
    assert next(talk) == AskTemplate("a.example")
    question = talk.send(offered(Wish(room.room_id, BOB, "leave", {}), room))
    assert isinstance(question, HandIn)
    with pytest.raises(StopIteration) as end:
        talk.send({})
    assert isinstance(end.value.value, Done)
    assert question.event.content == {"membership": "leave", "reason": "busy"}
    room.add(question.event)
    assert room.state()["m.room.member", BOB].membership == "leave"


def test_each_check_of_make_leave() -> None:
    """Another server's user, and an ACL."""
    refuse_to_make_leave(BOB, invited("11").state(), "b.example")
    with pytest.raises(MatrixError, match="own users"):
        refuse_to_make_leave(CAROL, invited("11").state(), "b.example")
    with pytest.raises(MatrixError, match="take part"):
        refuse_to_make_leave(BOB, denying(invited("11")).state(), "b.example")
