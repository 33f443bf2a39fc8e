"""`MembershipClient`: the requests that it sends, and their errors."""

import json
from typing import Any

import pytest
from aiohttp import web

from federation.client.errors import PeerMalformed, PeerRefused
from federation.matrix.errors import PeerError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.joining import join
from federation.memberships.leave_and_knock import leave
from federation.memberships.membership_event import MembershipChange
from federation.memberships.outgoing import MembershipClient
from federation.memberships.remote_membership import AllServersFailed, HandshakeResult
from federation.memberships.send_join_response import JoinResult, build_response
from tests.federation.standing import NOW, chain_of, invited, offered
from tests.support.loopback_server import LoopbackServer
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.rooms import BOB, Room, public_room, signer

PEER = "peer.test"


class ResidentServer:
    """Answers make_* and send_* requests for a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.requests: list[web.Request] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        membership = request.path.split("/")[4].split("_")[1]
        if request.method == "GET":
            return web.json_response(offered(MembershipChange(self.room.room_id, BOB, membership, {}), self.room))
        if membership == "leave":
            return web.json_response({})
        event = self.room.propose("m.room.member", BOB, {"membership": "join"}, BOB)
        state = list(self.room.state().values())
        chain = chain_of(self.room, event, *state)
        return web.json_response(build_response(event, state, chain, omit_members=False, servers=()))


async def started(neighbourhood: Neighbourhood, handler: Any) -> tuple[MembershipClient, LoopbackServer]:
    server = await neighbourhood.server(handler, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    return MembershipClient(neighbourhood.reach().client), server


async def test_a_join_handshake(neighbourhood: Neighbourhood) -> None:
    """make_join lists every supported version; the body of send_join is the event; the full state is
    requested."""
    room = public_room("11")
    resident = ResidentServer(room)
    membership_client, server = await started(neighbourhood, resident)
    handshake = join(room.room_id, BOB, {}, [PEER], signer("b.example"), NOW)
    done = await membership_client.run(handshake, room_id=room.room_id, user=BOB, membership="join")
    assert isinstance(done, HandshakeResult)
    assert isinstance(done.result, JoinResult)
    make, send = resident.requests
    assert make.raw_path.startswith("/_matrix/federation/v1/make_join/%21room%3Aa.example/%40bob%3Ab.example?")
    assert make.query.getall("ver") == list(ROOM_VERSIONS)
    assert send.path.startswith("/_matrix/federation/v2/send_join/")
    assert "omit_members" not in send.query
    assert json.loads(server.bodies[1]) == done.event.event


async def test_a_leave_handshake(neighbourhood: Neighbourhood) -> None:
    """make_leave has no versions, and the response of send_leave is an empty object."""
    room = invited("11")
    resident = ResidentServer(room)
    membership_client, _ = await started(neighbourhood, resident)
    handshake = leave(room.room_id, BOB, {}, [PEER], signer("b.example"), NOW)
    done = await membership_client.run(handshake, room_id=room.room_id, user=BOB, membership="leave")
    assert isinstance(done, HandshakeResult)
    assert "ver" not in resident.requests[0].query
    assert resident.requests[1].path.startswith("/_matrix/federation/v2/send_leave/")


async def test_errors_are_passed_to_the_handshake(neighbourhood: Neighbourhood) -> None:
    """It continues with the next server."""
    membership_client, _ = await started(neighbourhood, answering({"errcode": "M_FORBIDDEN"}, 403))
    handshake = join("!room:a.example", BOB, {}, ["nowhere.test", PEER], signer("b.example"), NOW)
    failed = await membership_client.run(handshake, room_id="!room:a.example", user=BOB, membership="join")
    assert isinstance(failed, AllServersFailed)
    assert [problem.peer for problem in failed.problems] == ["nowhere.test", PEER]
    assert isinstance(failed.problems[1], PeerRefused)


async def test_a_handshake_without_servers(neighbourhood: Neighbourhood) -> None:
    """No request is sent."""
    membership_client, _ = await started(neighbourhood, answering())
    handshake = join("!room:a.example", BOB, {}, [], signer("b.example"), NOW)
    failed = await membership_client.run(handshake, room_id="!room:a.example", user=BOB, membership="join")
    assert failed == AllServersFailed(())


async def test_an_alias_is_resolved(neighbourhood: Neighbourhood) -> None:
    """Returns the room and its servers; entries that are not strings are ignored."""
    membership_client, server = await started(
        neighbourhood, answering({"room_id": "!room:a.example", "servers": ["a.example", 1, "b.example"]})
    )
    assert await membership_client.directory(PEER, "#kitchen:peer.test") == (
        "!room:a.example",
        ("a.example", "b.example"),
    )
    assert server.requests[0].query["room_alias"] == "#kitchen:peer.test"


@pytest.mark.parametrize("content", [{}, {"room_id": "!r:a.example"}, {"room_id": 1, "servers": []}])
async def test_an_invalid_directory_response(neighbourhood: Neighbourhood, content: dict[str, Any]) -> None:
    """Raises PeerMalformed."""
    membership_client, _ = await started(neighbourhood, answering(content))
    with pytest.raises(PeerMalformed):
        await membership_client.directory(PEER, "#kitchen:peer.test")


async def test_an_invite_is_sent(neighbourhood: Neighbourhood) -> None:
    """The body is the caller's; a failure is a `PeerError`."""
    membership_client, server = await started(neighbourhood, answering({"event": {}}))
    body = {"room_version": "12", "event": {}, "invite_room_state": []}
    assert await membership_client.invite(PEER, "!room:a.example", "$e", body) == {"event": {}}
    assert server.requests[0].raw_path == "/_matrix/federation/v2/invite/%21room%3Aa.example/%24e"
    assert json.loads(server.bodies[0]) == body
    with pytest.raises(PeerError):
        await membership_client.invite("nowhere.test", "!room:a.example", "$e", body)
