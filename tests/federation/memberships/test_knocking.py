"""Knocking at a room of another server, and hearing others knock."""

import pytest

from federation.matrix.errors import MatrixError
from federation.memberships.leave_and_knock import answer, knock, refuse_to_make_knock
from federation.memberships.membership_event import Wish
from federation.memberships.remote_membership import AskTemplate, Done, HandIn
from tests.federation.standing import NOW, VERSIONS, denying, offered
from tests.support.rooms import ALICE, BOB, CAROL, Room, signer


def room_with_a_door(version: str) -> Room:
    room = Room(version)
    room.join(ALICE)
    room.join_rule(ALICE, "knock")
    room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
    return room


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_knock(version: str) -> None:
    """What comes back shows the room, its create event above all."""
    room = room_with_a_door(version)
    talk = knock(room.room_id, BOB, {"reason": "hungry"}, ["a.example"], signer("b.example"), NOW)
    assert next(talk) == AskTemplate("a.example")
    question = talk.send(offered(Wish(room.room_id, BOB, "knock", {}), room))
    assert isinstance(question, HandIn)
    assert question.event.content == {"membership": "knock", "reason": "hungry"}
    room.add(question.event)
    with pytest.raises(StopIteration) as end:
        talk.send(answer(room.state()))
    done = end.value.value
    assert isinstance(done, Done)
    assert done.result.problem is None
    assert [shown["type"] for shown in done.result.stripped] == [
        "m.room.create",
        "m.room.name",
        "m.room.join_rules",
    ]


def test_a_knock_that_was_heard_is_heard() -> None:
    """Whatever is wrong with what is shown: no other door is knocked at."""
    room = room_with_a_door("11")
    talk = knock(room.room_id, BOB, {}, ["a.example", "c.example"], signer("b.example"), NOW)
    next(talk)
    talk.send(offered(Wish(room.room_id, BOB, "knock", {}), room))
    with pytest.raises(StopIteration) as end:
        talk.send({})
    assert isinstance(end.value.value, Done)
    assert end.value.value.result.problem == "there is no list of events"


def test_each_check_of_make_knock() -> None:
    """Another server's user, an ACL, and the version."""
    room = room_with_a_door("11")

    def check(user: str, *versions: str) -> None:
        refuse_to_make_knock(user, room.state(), room.version, origin="b.example", versions=versions)

    check(BOB, "10", "11")
    with pytest.raises(MatrixError, match="own users"):
        check(CAROL, "11")
    with pytest.raises(MatrixError, match="400 M_INCOMPATIBLE_ROOM_VERSION"):
        check(BOB, "10")
    denying(room)
    with pytest.raises(MatrixError, match="take part"):
        check(BOB, "11")
