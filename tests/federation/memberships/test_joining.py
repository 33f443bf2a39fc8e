"""Joining over another server, and letting others in."""

from typing import Any

import pytest

from federation.events.event_signatures import add_signature
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.joining import content_of_join, join, needs_our_signature
from federation.memberships.membership_event import AUTHORISER, Wish
from federation.memberships.remote_membership import AskTemplate, Done, HandIn, NobodyHelped
from federation.memberships.send_join_answer import SentJoin, answer
from tests.federation.standing import (
    NOW,
    OTHER_ROOM,
    VERSIONS,
    chain_of,
    denying,
    invited,
    offered,
    restricted_room,
)
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

every_version = pytest.mark.parametrize("version", VERSIONS)


def made(room: Room, user: str = BOB, **other: Any) -> dict[str, Any]:
    """What `make_join` answers."""
    arguments = {
        "origin": "b.example",
        "versions": tuple(ROOM_VERSIONS),
        "memberships": {},
        "server": "a.example",
        **other,
    }
    content = content_of_join(user, room.state(), room.version, **arguments)
    return offered(Wish(room.room_id, user, "join", content), room)


@every_version
def test_a_whole_join(version: str) -> None:
    """What one side asks and the other answers, from the first question to a room that both know."""
    room = restricted_room(version, OTHER_ROOM)
    talk = join(room.room_id, BOB, {"displayname": "Bob"}, ["a.example"], signer("b.example"), NOW)
    assert next(talk) == AskTemplate("a.example")
    question = talk.send(made(room, memberships={OTHER_ROOM: "join"}))
    assert isinstance(question, HandIn)
    event = question.event
    assert event.content == {"membership": "join", AUTHORISER: ALICE, "displayname": "Bob"}
    assert needs_our_signature(event, room.state(), room.version, {OTHER_ROOM: "join"}, "a.example")
    signed = add_signature(
        event.event, room.version, "a.example", signer("a.example").key_id, signer("a.example").key
    )
    state = list(room.state().values())
    content = answer(event, state, chain_of(room, event, *state), omit_members=False, servers=())
    with pytest.raises(StopIteration) as end:
        talk.send({**content, "event": signed})
    done = end.value.value
    assert isinstance(done, Done)
    assert isinstance(done.result, SentJoin)
    assert room.add(done.result.event).membership == "join"


def test_a_wrong_answer_to_the_join_is_a_problem_of_that_server() -> None:
    """The next one is asked, and here there is none."""
    room = public_room("11")
    talk = join(room.room_id, BOB, {}, ["a.example"], signer("b.example"), NOW)
    next(talk)
    talk.send(made(room))
    with pytest.raises(StopIteration) as end:
        talk.send({"state": [], "auth_chain": []})
    assert isinstance(end.value.value, NobodyHelped)


@every_version
def test_who_may_join_a_public_room_gets_a_template(version: str) -> None:
    """Nobody vouches for it."""
    assert AUTHORISER not in made(public_room(version))["event"]["content"]


def test_who_was_invited_gets_a_template_without_anybody_who_vouches() -> None:
    """Of a restricted room too: "If the user is responding to an invite, this is not required." """
    room = restricted_room("11", OTHER_ROOM)
    room.member(ALICE, BOB, "invite")
    assert AUTHORISER not in made(room)["event"]["content"]
    assert made(invited("11"))["event"]["content"] == {"membership": "join"}


def test_each_check_of_make_join() -> None:
    """Another server's user, an ACL, a version: each with its own error."""
    room = public_room("11", CAROL)
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*own users"):
        made(room, CAROL)
    with pytest.raises(MatrixError, match="400 M_INCOMPATIBLE_ROOM_VERSION"):
        made(room, versions=["12"])
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*take part"):
        made(denying(public_room("11")))


@every_version
def test_a_join_is_signed_only_when_the_condition_still_holds(version: str) -> None:
    """The template may be an old one, or not be ours at all."""
    room = restricted_room(version, OTHER_ROOM)
    event = room.propose("m.room.member", BOB, {"membership": "join", AUTHORISER: ALICE}, BOB)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        needs_our_signature(event, room.state(), room.version, {OTHER_ROOM: "leave"}, "a.example")
    assert needs_our_signature(event, room.state(), room.version, {OTHER_ROOM: "join"}, "a.example")


def test_a_join_that_another_server_vouches_for() -> None:
    """It comes with that server's signature or not at all; ours would say nothing."""
    room = public_room("11", CAROL)
    event = room.propose("m.room.member", BOB, {"membership": "join", AUTHORISER: CAROL}, BOB)
    with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*signature"):
        needs_our_signature(event, room.state(), room.version, {}, "a.example")
    content = {"membership": "join", AUTHORISER: CAROL}
    signed = room.propose("m.room.member", BOB, content, BOB, also_signed_by=["c.example"])
    assert not needs_our_signature(signed, room.state(), room.version, {}, "a.example")
    plain = room.propose("m.room.member", BOB, {"membership": "join"}, BOB)
    assert not needs_our_signature(plain, room.state(), room.version, {}, "a.example")
