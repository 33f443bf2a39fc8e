"""Rejecting an invite and taking back a knock."""

import pytest

from federation.errors import MatrixError
from federation.leaving import leave, make_leave
from federation.remote_membership import AskTemplate, Done, HandIn
from tests.federation.standing import NOW, VERSIONS, denying, invited, standing
from tests.support.rooms import BOB, CAROL, public_room, signer


@pytest.mark.parametrize("version", VERSIONS)
def test_an_invite_is_rejected(version: str) -> None:
    """Over the server that invited, with a reason; an empty object is the answer."""
    room = invited(version)
    talk = leave(room.room_id, BOB, {"reason": "busy"}, ["a.example"], signer("b.example"), NOW)
    assert next(talk) == AskTemplate("a.example")
    question = talk.send(make_leave(standing(room), BOB, origin="b.example", now_ms=NOW))
    assert isinstance(question, HandIn)
    with pytest.raises(StopIteration) as end:
        talk.send({})
    assert isinstance(end.value.value, Done)
    assert question.event.content == {"membership": "leave", "reason": "busy"}
    room.add(question.event)
    assert room.state()["m.room.member", BOB].membership == "leave"


def test_who_is_not_there_cannot_leave() -> None:
    """The rules allow it from invite, join and knock only."""
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule"):
        make_leave(standing(public_room("11")), BOB, origin="b.example", now_ms=NOW)


def test_each_check_of_make_leave() -> None:
    """Another server's user, and an ACL."""
    with pytest.raises(MatrixError, match="own users"):
        make_leave(standing(invited("11")), CAROL, origin="b.example", now_ms=NOW)
    with pytest.raises(MatrixError, match="take part"):
        make_leave(standing(denying(invited("11"))), BOB, origin="b.example", now_ms=NOW)
