"""Inviting a user of another server, and being invited."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.event_signatures import add_signature
from federation.matrix.errors import MatrixError
from federation.memberships.inviting import ReceivedInvite, received, request, signed
from tests.federation.standing import VERSIONS
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

every_version = pytest.mark.parametrize("version", VERSIONS)


def invite_of(room: Room, user: str = BOB, sender: str = ALICE, **content: Any) -> Pdu:
    return room.propose("m.room.member", sender, {"membership": "invite", **content}, user)


def receive(room: Room, invite: Pdu, change: dict[str, Any] | None = None, **other: Any) -> ReceivedInvite:
    arguments = {
        "room_id": room.room_id,
        "event_id": invite.event_id,
        "origin": "a.example",
        "server": "b.example",
        **other,
    }
    return received({**request(invite, room.state(), room.version), **(change or {})}, **arguments)


@every_version
def test_an_invite_is_asked_to_be_signed(version: str) -> None:
    """The body holds the version, the event and full events of the room, create and inviter among them."""
    room = public_room(version)
    body = request(invite_of(room), room.state(), room.version)
    assert body["room_version"] == version
    types = [event["type"] for event in body["invite_room_state"]]
    assert types == ["m.room.create", "m.room.join_rules", "m.room.member"]
    assert all("signatures" in event for event in body["invite_room_state"])


@every_version
def test_what_one_side_asks_the_other_accepts(version: str) -> None:
    """And what the other signs is merged into the invite."""
    room = public_room(version)
    invite = invite_of(room)
    accepted = receive(room, invite)
    assert accepted.event == invite
    assert accepted.state.problem is None
    assert accepted.state_must_hold is (version == "12")
    bobs = signer("b.example")
    answer = {"event": add_signature(accepted.event.event, room.version, "b.example", bobs.key_id, bobs.key)}
    merged = signed(answer, invite, room.version)
    assert isinstance(merged, Pdu)
    assert set(merged.signatures) == {"a.example", "b.example"}


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"room_id": "!other:a.example"}, "another room"),
        ({"event_id": "$other"}, "another id"),
        ({"origin": "c.example"}, "another server's user"),
        ({"server": "c.example"}, "not a user of this server"),
    ],
)
def test_an_invite_that_is_not_what_the_request_says(other: dict[str, Any], problem: str) -> None:
    """Each is refused with M_INVALID_PARAM."""
    room = public_room("11")
    with pytest.raises(MatrixError, match=f"400 M_INVALID_PARAM.*{problem}"):
        receive(room, invite_of(room), **other)


def test_what_is_no_invite_is_not_signed() -> None:
    """A server could otherwise have us sign anything."""
    room = public_room("11", BOB)
    for pdu in (
        room.propose("m.room.member", ALICE, {"membership": "leave"}, BOB),
        room.propose("m.room.message", ALICE, {"membership": "invite"}, BOB),
    ):
        with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*not an invite"):
            receive(room, pdu)


def test_an_invite_whose_content_was_changed() -> None:
    """Its hash does not hold."""
    room = public_room("11")
    invite = invite_of(room)
    event = {**invite.event, "content": {**invite.content, "displayname": "Mallory"}}
    with pytest.raises(MatrixError, match="content hash"):
        receive(room, invite, {"event": event})


@pytest.mark.parametrize("version", ["1", "2", "org.example.42"])
def test_a_version_that_this_server_does_not_support(version: str) -> None:
    """400 M_INCOMPATIBLE_ROOM_VERSION, with the version."""
    room = public_room("11")
    with pytest.raises(MatrixError) as refused:
        receive(room, invite_of(room), {"room_version": version})
    assert refused.value.body()["errcode"] == "M_INCOMPATIBLE_ROOM_VERSION"
    assert refused.value.body()["room_version"] == version


def test_a_body_of_no_form() -> None:
    """No object, no version, no event."""
    room = public_room("11")
    invite = invite_of(room)
    with pytest.raises(MatrixError, match="400 M_NOT_JSON"):
        received([], room_id=room.room_id, event_id=invite.event_id, origin="a.example", server="b.example")
    with pytest.raises(MatrixError, match="400 M_MISSING_PARAM"):
        receive(room, invite, {"room_version": None})
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        receive(room, invite, {"event": {}})


@every_version
@pytest.mark.parametrize("entries", [None, [], [{"type": "m.room.name", "state_key": "", "content": {}}]])
def test_an_invite_that_does_not_show_the_create_event(version: str, entries: Any) -> None:
    """Version 12 refuses with M_MISSING_PARAM: the room id does not say who made the room. Before that it is
    worth a warning."""
    room = public_room(version)
    if version == "12":
        with pytest.raises(MatrixError, match="400 M_MISSING_PARAM"):
            receive(room, invite_of(room), {"invite_room_state": entries})
    else:
        accepted = receive(room, invite_of(room), {"invite_room_state": entries})
        assert accepted.state.problem is not None
        assert not accepted.state_must_hold


@every_version
def test_an_invite_that_shows_something_of_another_room(version: str) -> None:
    """Version 12 refuses with M_INVALID_PARAM; before, it is left out."""
    room, other = public_room(version), public_room("12", topic="other")
    shown = request(invite_of(room), room.state(), room.version)["invite_room_state"]
    entries = [*shown, other.state()["m.room.join_rules", ""].event]
    if version == "12":
        with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*another room"):
            receive(room, invite_of(room), {"invite_room_state": entries})
    else:
        accepted = receive(room, invite_of(room), {"invite_room_state": entries})
        assert accepted.state.problem == "an event is of another room"
        assert len(accepted.state.stripped) == len(shown)


def test_an_answer_that_holds_no_signature_of_theirs() -> None:
    """No event, another event, or ours as we sent it."""
    room = public_room("11")
    invite = invite_of(room)
    assert signed({}, invite, room.version) == "there is no event in the answer"
    for returned in (invite.event, invite_of(room, CAROL).event):
        problem = signed({"event": returned}, invite, room.version)
        assert problem == "what came back is not the invite with a signature added"
