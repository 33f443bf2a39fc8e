"""Invites between servers."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.event_signatures import add_signature
from federation.matrix.errors import MatrixError
from federation.memberships.inviting import ReceivedInvite, invite_request, parse_invite, parse_invite_response
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
    return parse_invite({**invite_request(invite, room.state(), room.version), **(change or {})}, **arguments)


@every_version
def test_the_body_of_an_invite_request(version: str) -> None:
    """The version, the event and full events of the room, the create event and the inviter's membership among
    them."""
    room = public_room(version)
    body = invite_request(invite_of(room), room.state(), room.version)
    assert body["room_version"] == version
    types = [event["type"] for event in body["invite_room_state"]]
    assert types == ["m.room.create", "m.room.join_rules", "m.room.member"]
    assert all("signatures" in event for event in body["invite_room_state"])


@every_version
def test_an_invite_request_is_accepted_and_signed(version: str) -> None:
    """The signature in the response is added to the invite."""
    room = public_room(version)
    invite = invite_of(room)
    accepted = receive(room, invite)
    assert accepted.event == invite
    assert accepted.state.problem is None
    assert accepted.must_verify_state is (version == "12")
    bobs = signer("b.example")
    answer = {"event": add_signature(accepted.event.event, room.version, "b.example", bobs.key_id, bobs.key)}
    merged = parse_invite_response(answer, invite, room.version)
    assert isinstance(merged, Pdu)
    assert set(merged.signatures) == {"a.example", "b.example"}


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"room_id": "!other:a.example"}, "room is not"),
        ({"event_id": "$other"}, "id is not"),
        ({"origin": "c.example"}, "not a user of your server"),
        ({"server": "c.example"}, "not a user of this server"),
    ],
)
def test_an_invite_that_does_not_match_the_request(other: dict[str, Any], problem: str) -> None:
    """Each check refuses with M_INVALID_PARAM."""
    room = public_room("11")
    with pytest.raises(MatrixError, match=f"400 M_INVALID_PARAM.*{problem}"):
        receive(room, invite_of(room), **other)


def test_other_events_are_not_signed() -> None:
    """Otherwise a server could obtain our signature on anything."""
    room = public_room("11", BOB)
    for pdu in (
        room.propose("m.room.member", ALICE, {"membership": "leave"}, BOB),
        room.propose("m.room.message", ALICE, {"membership": "invite"}, BOB),
    ):
        with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*not an invite"):
            receive(room, pdu)


def test_an_invite_with_a_wrong_content_hash() -> None:
    """M_INVALID_PARAM."""
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


def test_a_malformed_body() -> None:
    """Not an object, no version, no event."""
    room = public_room("11")
    invite = invite_of(room)
    with pytest.raises(MatrixError, match="400 M_NOT_JSON"):
        parse_invite([], room_id=room.room_id, event_id=invite.event_id, origin="a.example", server="b.example")
    with pytest.raises(MatrixError, match="400 M_MISSING_PARAM"):
        receive(room, invite, {"room_version": None})
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        receive(room, invite, {"event": {}})


@every_version
@pytest.mark.parametrize("entries", [None, [], [{"type": "m.room.name", "state_key": "", "content": {}}]])
def test_stripped_state_without_the_create_event(version: str, entries: Any) -> None:
    """Version 12 refuses it with M_MISSING_PARAM, since the room id does not contain the creator's server.
    Before, it is a warning."""
    room = public_room(version)
    if version == "12":
        with pytest.raises(MatrixError, match="400 M_MISSING_PARAM"):
            receive(room, invite_of(room), {"invite_room_state": entries})
    else:
        accepted = receive(room, invite_of(room), {"invite_room_state": entries})
        assert accepted.state.problem is not None
        assert not accepted.must_verify_state


@every_version
def test_stripped_state_of_a_server_before_v1_16(version: str) -> None:
    """Its entries are not complete events. Version 12 refuses it with M_INVALID_PARAM."""
    room = public_room(version)
    shown = invite_request(invite_of(room), room.state(), room.version)["invite_room_state"]
    entries = [{name: event[name] for name in ("type", "state_key", "sender", "content")} for event in shown]
    if version == "12":
        with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*stripped event"):
            receive(room, invite_of(room), {"invite_room_state": entries})
    else:
        accepted = receive(room, invite_of(room), {"invite_room_state": entries})
        assert accepted.state.stripped == tuple(entries)


@every_version
def test_stripped_state_with_an_event_of_another_room(version: str) -> None:
    """Version 12 refuses it with M_INVALID_PARAM; before, the event is left out."""
    room, other = public_room(version), public_room("12", topic="other")
    shown = invite_request(invite_of(room), room.state(), room.version)["invite_room_state"]
    entries = [*shown, other.state()["m.room.join_rules", ""].event]
    if version == "12":
        with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*another room"):
            receive(room, invite_of(room), {"invite_room_state": entries})
    else:
        accepted = receive(room, invite_of(room), {"invite_room_state": entries})
        assert accepted.state.problem == "an event belongs to another room"
        assert len(accepted.state.stripped) == len(shown)


def test_an_invite_response_without_signature() -> None:
    """No event, another event, or the unsigned invite."""
    room = public_room("11")
    invite = invite_of(room)
    assert parse_invite_response({}, invite, room.version) == "the response has no event"
    for returned in (invite.event, invite_of(room, CAROL).event):
        problem = parse_invite_response({"event": returned}, invite, room.version)
        assert problem == "the returned event is not the invite with a signature added"
