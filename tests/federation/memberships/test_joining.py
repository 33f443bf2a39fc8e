"""Joining through another server, and accepting joins."""

from typing import Any

import pytest

from federation.events.event_signatures import add_signature
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.joining import join, join_template_content, needs_local_signature
from federation.memberships.membership_event import AUTHORISER, MembershipChange
from federation.memberships.remote_membership import AllServersFailed, HandshakeResult, SendRequest, TemplateRequest
from federation.memberships.send_join_response import JoinResult, build_response
from tests.federation.standing import NOW, OTHER_ROOM, VERSIONS, chain_of, denying, invited, offered, restricted_room
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

every_version = pytest.mark.parametrize("version", VERSIONS)


def make_join(room: Room, user: str = BOB, **other: Any) -> dict[str, Any]:
    """The response of `make_join`."""
    arguments = {
        "origin": "b.example",
        "versions": tuple(ROOM_VERSIONS),
        "memberships": {},
        "server": "a.example",
        **other,
    }
    content = join_template_content(user, room.state(), room.version, **arguments)
    return offered(MembershipChange(room.room_id, user, "join", content), room)


@every_version
def test_a_complete_join(version: str) -> None:
    """Both sides of a handshake, from the first request to an event that the room accepts."""
    room = restricted_room(version, OTHER_ROOM)
    handshake = join(room.room_id, BOB, {"displayname": "Bob"}, ["a.example"], signer("b.example"), NOW)
    assert next(handshake) == TemplateRequest("a.example")
    request = handshake.send(make_join(room, memberships={OTHER_ROOM: "join"}))
    assert isinstance(request, SendRequest)
    event = request.event
    assert event.content == {"membership": "join", AUTHORISER: ALICE, "displayname": "Bob"}
    assert needs_local_signature(event, room.state(), room.version, {OTHER_ROOM: "join"}, "a.example")
    signed = add_signature(event.event, room.version, "a.example", signer("a.example").key_id, signer("a.example").key)
    state = list(room.state().values())
    content = build_response(event, state, chain_of(room, event, *state), omit_members=False, servers=())
    with pytest.raises(StopIteration) as end:
        handshake.send({**content, "event": signed})
    done = end.value.value
    assert isinstance(done, HandshakeResult)
    assert isinstance(done.result, JoinResult)
    assert room.add(done.result.event).membership == "join"


def test_an_invalid_send_join_response_is_that_servers_failure() -> None:
    """The next server would be tried; here there is none."""
    room = public_room("11")
    handshake = join(room.room_id, BOB, {}, ["a.example"], signer("b.example"), NOW)
    next(handshake)
    handshake.send(make_join(room))
    with pytest.raises(StopIteration) as end:
        handshake.send({"state": [], "auth_chain": []})
    assert isinstance(end.value.value, AllServersFailed)


@every_version
def test_make_join_of_a_public_room(version: str) -> None:
    """The template names no authoriser."""
    assert AUTHORISER not in make_join(public_room(version))["event"]["content"]


def test_make_join_of_an_invited_user() -> None:
    """No authoriser in a restricted room either: "If the user is responding to an invite, this is not
    required."
    """
    room = restricted_room("11", OTHER_ROOM)
    room.member(ALICE, BOB, "invite")
    assert AUTHORISER not in make_join(room)["event"]["content"]
    assert make_join(invited("11"))["event"]["content"] == {"membership": "join"}


def test_each_check_of_make_join() -> None:
    """Another server's user, an unsupported version, an ACL: each with its own error."""
    room = public_room("11", CAROL)
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*own users"):
        make_join(room, CAROL)
    with pytest.raises(MatrixError, match="400 M_INCOMPATIBLE_ROOM_VERSION"):
        make_join(room, versions=["12"])
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*server_acl"):
        make_join(denying(public_room("11")))


@every_version
def test_a_restricted_join_is_signed_only_if_the_condition_still_holds(version: str) -> None:
    """The template may be outdated, or not from this server."""
    room = restricted_room(version, OTHER_ROOM)
    event = room.propose("m.room.member", BOB, {"membership": "join", AUTHORISER: ALICE}, BOB)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        needs_local_signature(event, room.state(), room.version, {OTHER_ROOM: "leave"}, "a.example")
    assert needs_local_signature(event, room.state(), room.version, {OTHER_ROOM: "join"}, "a.example")


def test_a_join_that_another_server_authorises() -> None:
    """It must be signed by that server; ours would have no meaning."""
    room = public_room("11", CAROL)
    event = room.propose("m.room.member", BOB, {"membership": "join", AUTHORISER: CAROL}, BOB)
    with pytest.raises(MatrixError, match=r"400 M_INVALID_PARAM.*signature"):
        needs_local_signature(event, room.state(), room.version, {}, "a.example")
    content = {"membership": "join", AUTHORISER: CAROL}
    signed = room.propose("m.room.member", BOB, content, BOB, also_signed_by=["c.example"])
    assert not needs_local_signature(signed, room.state(), room.version, {}, "a.example")
    plain = room.propose("m.room.member", BOB, {"membership": "join"}, BOB)
    assert not needs_local_signature(plain, room.state(), room.version, {}, "a.example")
