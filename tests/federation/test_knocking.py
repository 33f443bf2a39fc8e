"""Knocking at a room of another server, and hearing others knock."""

import pytest

from federation.errors import MatrixError
from federation.knocking import answer, knock, make_knock
from federation.remote_membership import AskTemplate, Done, HandIn
from federation.room_version import ROOM_VERSIONS
from tests.federation.standing import NOW, VERSIONS, denying, standing
from tests.support.rooms import ALICE, BOB, CAROL, Room, signer

KNOWN = tuple(ROOM_VERSIONS)


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
    question = talk.send(make_knock(standing(room), BOB, origin="b.example", versions=KNOWN, now_ms=NOW))
    assert isinstance(question, HandIn)
    assert question.event.content == {"membership": "knock", "reason": "hungry"}
    room.add(question.event)
    with pytest.raises(StopIteration) as end:
        talk.send(answer(standing(room)))
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
    talk.send(make_knock(standing(room), BOB, origin="b.example", versions=KNOWN, now_ms=NOW))
    with pytest.raises(StopIteration) as end:
        talk.send({})
    assert isinstance(end.value.value, Done)
    assert end.value.value.result.problem == "there is no list of events"


def test_each_check_of_make_knock() -> None:
    """Another server's user, an ACL, the version, and a room that hears no knocking."""
    room = room_with_a_door("11")
    with pytest.raises(MatrixError, match="own users"):
        make_knock(standing(room), CAROL, origin="b.example", versions=KNOWN, now_ms=NOW)
    with pytest.raises(MatrixError, match="400 M_INCOMPATIBLE_ROOM_VERSION"):
        make_knock(standing(room), BOB, origin="b.example", versions=["10"], now_ms=NOW)
    with pytest.raises(MatrixError, match="take part"):
        make_knock(standing(denying(room)), BOB, origin="b.example", versions=KNOWN, now_ms=NOW)
    room.join_rule(ALICE, "invite")
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule"):
        make_knock(standing(room), CAROL, origin="c.example", versions=KNOWN, now_ms=NOW)
