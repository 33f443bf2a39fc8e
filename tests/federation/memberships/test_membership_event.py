"""The five checks of a membership event that another server hands in, and signatures that come back."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.event_signatures import add_signature
from federation.matrix.errors import MatrixError
from federation.memberships.membership_event import authoriser_of, handed_in, with_signatures_of
from tests.federation.standing import VERSIONS
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer


def join_of(room: Room, user: str = BOB, **content: Any) -> Pdu:
    return room.propose("m.room.member", user, {"membership": "join", **content}, user)


def check(pdu: Pdu, room: Room, **other: Any) -> Pdu:
    arguments = {
        "room_id": room.room_id,
        "event_id": pdu.event_id,
        "origin": "b.example",
        "membership": "join",
        **other,
    }
    body = arguments.pop("body", pdu.event)
    return handed_in(body, room.version, **arguments)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_join_that_is_one(version: str) -> None:
    """All five checks hold."""
    room = public_room(version)
    pdu = join_of(room)
    assert check(pdu, room) == pdu


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"room_id": "!other:a.example"}, "another room"),
        ({"event_id": "$other"}, "another id"),
        ({"membership": "leave"}, "membership leave"),
        ({"origin": "c.example"}, "another server's user"),
    ],
)
def test_a_join_that_is_not_what_the_request_says(other: dict[str, Any], problem: str) -> None:
    """Each of the checks refuses with M_INVALID_PARAM."""
    room = public_room("11")
    with pytest.raises(MatrixError, match=f"400 M_INVALID_PARAM.*{problem}"):
        check(join_of(room), room, **other)


def test_a_membership_of_somebody_else() -> None:
    """The state_key must be the sender."""
    room = public_room("11", BOB)
    invite = room.propose("m.room.member", BOB, {"membership": "invite"}, CAROL)
    with pytest.raises(MatrixError, match="state_key"):
        check(invite, room, membership="invite")


def test_an_event_of_another_type() -> None:
    """Not every content with a membership is a member event's."""
    room = public_room("11", BOB)
    with pytest.raises(MatrixError, match=r"m\.room\.member"):
        check(room.propose("m.room.message", BOB, {"membership": "join"}, BOB), room)


@pytest.mark.parametrize("body", [None, [], {}, {"type": "m.room.member"}])
def test_what_is_no_event(body: object) -> None:
    """400 M_BAD_JSON says what it lacks."""
    room = public_room("11")
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        check(join_of(room), room, body=body)


def test_a_content_that_was_changed() -> None:
    """Its hash does not hold, so it could only be kept redacted."""
    room = public_room("11")
    pdu = join_of(room)
    body = {**pdu.event, "content": {**pdu.content, "displayname": "Mallory"}}
    with pytest.raises(MatrixError, match="content hash"):
        check(pdu, room, body=body)


def test_who_vouches_for_a_join() -> None:
    """Only of joins, only where the version has restricted joins, and only if it is a user id."""
    room = public_room("11")
    key = "join_authorised_via_users_server"
    assert authoriser_of(join_of(room), room.version) is None
    assert authoriser_of(join_of(room, **{key: ALICE}), room.version) == ALICE
    old = public_room("7")
    assert authoriser_of(join_of(old, **{key: ALICE}), old.version) is None
    nobody: Any
    for nobody in (None, 1, "alice"):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            authoriser_of(join_of(room, **{key: nobody}), room.version)


def test_a_signature_that_came_back_is_merged() -> None:
    """Ours stays, and so does everything else as we made it: only that server's signatures are taken over."""
    room = public_room("11")
    pdu = join_of(room)
    theirs = signer("a.example")
    returned = add_signature(pdu.event, room.version, theirs.server, theirs.key_id, theirs.key)
    returned["signatures"] = {
        "a.example": returned["signatures"]["a.example"],
        "e.example": {"ed25519:x": "y"},
    }
    returned["unsigned"] = {"age": 5}
    merged = with_signatures_of(pdu, returned, "a.example", room.version)
    assert merged is not None
    assert set(merged.signatures) == {"a.example", "b.example"}
    assert {**merged.event, "signatures": None} == {**pdu.event, "signatures": None}


def test_what_came_back_is_not_our_event() -> None:
    """Another event, or one that nobody has signed, is no answer."""
    room = public_room("11")
    pdu, other = join_of(room), join_of(room, CAROL)
    signed = add_signature(
        other.event,
        room.version,
        "a.example",
        signer("a.example").key_id,
        signer("a.example").key,
    )
    assert with_signatures_of(pdu, signed, "a.example", room.version) is None
    assert with_signatures_of(pdu, pdu.event, "a.example", room.version) is None
    broken: dict[str, Any]
    for broken in ({}, {"signatures": 1}, {"signatures": {"a.example": {}}}):
        assert with_signatures_of(pdu, broken, "a.example", room.version) is None
    numbers = {**pdu.event, "signatures": {"a.example": {"ed25519:x": 1}}}
    assert with_signatures_of(pdu, numbers, "a.example", room.version) is None
