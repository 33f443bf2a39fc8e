"""The checks of a submitted membership event, and adding returned signatures."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.event_signatures import add_signature
from federation.matrix.errors import MatrixError
from federation.memberships.membership_event import add_signatures_of, authoriser_of, parse_membership_event
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
    return parse_membership_event(body, room.version, **arguments)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_valid_join(version: str) -> None:
    """All checks hold."""
    room = public_room(version)
    pdu = join_of(room)
    assert check(pdu, room) == pdu


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"room_id": "!other:a.example"}, "room is not"),
        ({"event_id": "$other"}, "id is not"),
        ({"membership": "leave"}, "membership leave"),
        ({"origin": "c.example"}, "not a user of your server"),
    ],
)
def test_a_join_that_does_not_match_the_request(other: dict[str, Any], problem: str) -> None:
    """Each check refuses with M_INVALID_PARAM."""
    room = public_room("11")
    with pytest.raises(MatrixError, match=f"400 M_INVALID_PARAM.*{problem}"):
        check(join_of(room), room, **other)


def test_a_membership_of_another_user() -> None:
    """The state_key must be the sender."""
    room = public_room("11", BOB)
    invite = room.propose("m.room.member", BOB, {"membership": "invite"}, CAROL)
    with pytest.raises(MatrixError, match="state_key"):
        check(invite, room, membership="invite")


def test_an_event_of_another_type() -> None:
    """Content with a membership is not enough."""
    room = public_room("11", BOB)
    with pytest.raises(MatrixError, match=r"m\.room\.member"):
        check(room.propose("m.room.message", BOB, {"membership": "join"}, BOB), room)


@pytest.mark.parametrize("body", [None, [], {}, {"type": "m.room.member"}])
def test_an_invalid_event(body: object) -> None:
    """400 M_BAD_JSON names the problem."""
    room = public_room("11")
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        check(join_of(room), room, body=body)


def test_a_wrong_content_hash() -> None:
    """The event could only be stored redacted."""
    room = public_room("11")
    pdu = join_of(room)
    body = {**pdu.event, "content": {**pdu.content, "displayname": "Mallory"}}
    with pytest.raises(MatrixError, match="content hash"):
        check(pdu, room, body=body)


def test_the_authoriser_of_a_join() -> None:
    """Only of joins, only in versions with restricted joins, and only if it is a user id."""
    room = public_room("11")
    key = "join_authorised_via_users_server"
    assert authoriser_of(join_of(room), room.version) is None
    assert authoriser_of(join_of(room, **{key: ALICE}), room.version) == ALICE
    old = public_room("7")
    assert authoriser_of(join_of(old, **{key: ALICE}), old.version) is None
    invalid: Any
    for invalid in (None, 1, "alice"):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            authoriser_of(join_of(room, **{key: invalid}), room.version)


def test_a_returned_signature_is_added() -> None:
    """Only the signatures of that server are copied; everything else stays as in the local event."""
    room = public_room("11")
    pdu = join_of(room)
    theirs = signer("a.example")
    returned = add_signature(pdu.event, room.version, theirs.server, theirs.key_id, theirs.key)
    returned["signatures"] = {"a.example": returned["signatures"]["a.example"], "e.example": {"ed25519:x": "y"}}
    returned["unsigned"] = {"age": 5}
    merged = add_signatures_of(pdu, returned, "a.example", room.version)
    assert merged is not None
    assert set(merged.signatures) == {"a.example", "b.example"}
    assert {**merged.event, "signatures": None} == {**pdu.event, "signatures": None}


def test_a_returned_event_that_is_not_the_local_one() -> None:
    """Another event, or one without the server's signature, adds nothing."""
    room = public_room("11")
    pdu, other = join_of(room), join_of(room, CAROL)
    signed = add_signature(other.event, room.version, "a.example", signer("a.example").key_id, signer("a.example").key)
    assert add_signatures_of(pdu, signed, "a.example", room.version) is None
    assert add_signatures_of(pdu, pdu.event, "a.example", room.version) is None
    broken: dict[str, Any]
    for broken in ({}, {"signatures": 1}, {"signatures": {"a.example": {}}}):
        assert add_signatures_of(pdu, broken, "a.example", room.version) is None
    numbers = {**pdu.event, "signatures": {"a.example": {"ed25519:x": 1}}}
    assert add_signatures_of(pdu, numbers, "a.example", room.version) is None
