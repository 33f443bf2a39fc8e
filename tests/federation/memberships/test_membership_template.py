"""Templates of membership events: what a resident server gives, and what is believed of it."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.membership_event import (
    AUTHORISER,
    Wish,
    WrongTemplate,
    completed,
    refuse_denied,
    refuse_stranger,
    refuse_version,
)
from tests.federation.standing import NOW, VERSIONS, denying, offered
from tests.support.rooms import ALICE, BOB, Room, public_room, signer

every_version = pytest.mark.parametrize("version", VERSIONS)


def wish(room: Room, user: str = BOB, membership: str = "join", **content: Any) -> Wish:
    return Wish(room.room_id, user, membership, content)


@every_version
def test_a_template_becomes_an_event_that_the_room_allows(version: str) -> None:
    """What one side offers the other completes and signs; the rules let it in as it stands."""
    room = public_room(version)
    answer = offered(wish(room), room)
    assert answer["room_version"] == version
    made = completed(answer, wish(room, displayname="Bob"), signer("b.example"), NOW + 5)
    assert isinstance(made, tuple)
    event, known_version = made
    assert known_version is ROOM_VERSIONS[version]
    assert event.content == {"membership": "join", "displayname": "Bob"}
    assert event.origin_server_ts == NOW + 5
    assert event.depth == room.head[0].depth + 1
    assert event.prev_events == (room.head[0].event_id,)
    assert room.verdict(event) == room.verdict(
        room.propose("m.room.member", BOB, {"membership": "join"}, BOB)
    )
    room.add(event)
    assert room.state()["m.room.member", BOB] == event


def test_who_is_denied_by_the_acl() -> None:
    """ACLs act on make_ and send_ join, leave and knock; a room without one denies nobody."""
    room = public_room("11")
    refuse_denied(room.state(), "b.example")
    denying(room)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        refuse_denied(room.state(), "b.example")
    refuse_denied(room.state(), "c.example")


def test_a_server_asks_for_its_own_users() -> None:
    """userId "MUST be a user ID on the origin server"."""
    refuse_stranger(BOB, "b.example")
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        refuse_stranger(BOB, "c.example")


def test_a_version_that_the_asker_does_not_know() -> None:
    """400 with the room's version; a server that lists none knows version 1."""
    refuse_version(ROOM_VERSIONS["12"], ["11", "12"])
    for supported in ([], ["1", "11"]):
        with pytest.raises(MatrixError) as refused:
            refuse_version(ROOM_VERSIONS["12"], supported)
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
    answer = broken(offered(wish(room), room), change)
    wrong = completed(answer, wish(room), signer("b.example"), NOW)
    assert isinstance(wrong, WrongTemplate)
    assert problem in wrong.problem


def test_an_answer_that_holds_no_template() -> None:
    """No event, or a version that means nothing here: absent it is version 1."""
    room = public_room("11")
    answer = offered(wish(room), room)
    for broken_answer in (
        {**answer, "event": None},
        {**answer, "room_version": 11},
        {"event": answer["event"]},
    ):
        assert isinstance(completed(broken_answer, wish(room), signer("b.example"), NOW), WrongTemplate)


def test_nothing_of_a_template_is_signed_that_was_not_asked_for() -> None:
    """Of what the resident server writes into the content only the name of who vouches is taken over, and of
    other keys nothing: it could make us sign anything."""
    room = public_room("11")
    answer = offered(wish(room), room)
    content = {"membership": "join", "displayname": "Fool", AUTHORISER: ALICE}
    answer = broken(answer, {"content": content, "redacts": "$x", "unsigned": {"age": 1}})
    made = completed(answer, wish(room), signer("b.example"), NOW)
    assert isinstance(made, tuple)
    assert made[0].content == {"membership": "join", AUTHORISER: ALICE}
    assert not {"redacts", "unsigned"} & made[0].event.keys()


def test_nobody_vouches_for_what_is_no_join() -> None:
    """In a leave the key would mean nothing, and we do not sign what means nothing."""
    room = public_room("11", BOB)
    leaving = wish(room, membership="leave")
    answer = broken(offered(leaving, room), {"content": {"membership": "leave", AUTHORISER: ALICE}})
    made = completed(answer, leaving, signer("b.example"), NOW)
    assert isinstance(made, tuple)
    assert made[0].content == {"membership": "leave"}


def test_the_event_is_a_pdu() -> None:
    """It is signed by the server that asked, and by nobody else."""
    room = public_room("12")
    made = completed(offered(wish(room), room), wish(room), signer("b.example"), NOW)
    assert isinstance(made, tuple)
    assert isinstance(made[0], Pdu)
    assert set(made[0].signatures) == {"b.example"}
