"""Conversations carried out: the requests that are made, and what goes wrong with them."""

import json
from typing import Any

import pytest
from aiohttp import web

from federation.client.errors import PeerMalformed, PeerRefused
from federation.matrix.errors import PeerError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.joining import join
from federation.memberships.leave_and_knock import leave
from federation.memberships.membership_event import Wish
from federation.memberships.outgoing import Handshakes
from federation.memberships.remote_membership import Done, NobodyHelped
from federation.memberships.send_join_answer import SentJoin, answer
from tests.federation.standing import NOW, chain_of, invited, offered
from tests.support.loopback_server import LoopbackServer
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.rooms import BOB, Room, public_room, signer

PEER = "peer.test"


class Resident:
    """Answers make_ and send_ for a room that is here."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.asked: list[web.Request] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        membership = request.path.split("/")[4].split("_")[1]
        if request.method == "GET":
            return web.json_response(offered(Wish(self.room.room_id, BOB, membership, {}), self.room))
        if membership == "leave":
            return web.json_response({})
        event = self.room.propose("m.room.member", BOB, {"membership": "join"}, BOB)
        state = list(self.room.state().values())
        chain = chain_of(self.room, event, *state)
        return web.json_response(answer(event, state, chain, omit_members=False, servers=()))


async def started(neighbourhood: Neighbourhood, handler: Any) -> tuple[Handshakes, LoopbackServer]:
    server = await neighbourhood.server(handler, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    return Handshakes(neighbourhood.reach().client), server


async def test_a_join_is_carried_out(neighbourhood: Neighbourhood) -> None:
    """Every known version is named; the event that is handed in is the body; all members are wanted."""
    room = public_room("11")
    resident = Resident(room)
    handshakes, server = await started(neighbourhood, resident)
    talk = join(room.room_id, BOB, {}, [PEER], signer("b.example"), NOW)
    done = await handshakes.hold(talk, room_id=room.room_id, user=BOB, membership="join")
    assert isinstance(done, Done)
    assert isinstance(done.result, SentJoin)
    make, send = resident.asked
    assert make.raw_path.startswith(
        "/_matrix/federation/v1/make_join/%21room%3Aa.example/%40bob%3Ab.example?"
    )
    assert make.query.getall("ver") == list(ROOM_VERSIONS)
    assert send.path.startswith("/_matrix/federation/v2/send_join/")
    assert "omit_members" not in send.query
    assert json.loads(server.bodies[1]) == done.event.event


async def test_a_leave_is_carried_out(neighbourhood: Neighbourhood) -> None:
    """No versions are named, and an empty object is the answer."""
    room = invited("11")
    resident = Resident(room)
    handshakes, _ = await started(neighbourhood, resident)
    talk = leave(room.room_id, BOB, {}, [PEER], signer("b.example"), NOW)
    done = await handshakes.hold(talk, room_id=room.room_id, user=BOB, membership="leave")
    assert isinstance(done, Done)
    assert "ver" not in resident.asked[0].query
    assert resident.asked[1].path.startswith("/_matrix/federation/v2/send_leave/")


async def test_what_goes_wrong_is_part_of_the_conversation(neighbourhood: Neighbourhood) -> None:
    """It goes on with the next server, as far as there is one."""
    handshakes, _ = await started(neighbourhood, answering({"errcode": "M_FORBIDDEN"}, 403))
    talk = join("!room:a.example", BOB, {}, ["nowhere.test", PEER], signer("b.example"), NOW)
    nobody = await handshakes.hold(talk, room_id="!room:a.example", user=BOB, membership="join")
    assert isinstance(nobody, NobodyHelped)
    assert [problem.peer for problem in nobody.problems] == ["nowhere.test", PEER]
    assert isinstance(nobody.problems[1], PeerRefused)


async def test_nobody_is_asked_where_there_is_nobody(neighbourhood: Neighbourhood) -> None:
    """The conversation is over before it began."""
    handshakes, _ = await started(neighbourhood, answering())
    talk = join("!room:a.example", BOB, {}, [], signer("b.example"), NOW)
    nobody = await handshakes.hold(talk, room_id="!room:a.example", user=BOB, membership="join")
    assert nobody == NobodyHelped(())


async def test_an_alias_is_asked_for(neighbourhood: Neighbourhood) -> None:
    """The room and its servers; names that are none are left out."""
    handshakes, server = await started(
        neighbourhood, answering({"room_id": "!room:a.example", "servers": ["a.example", 1, "b.example"]})
    )
    assert await handshakes.directory(PEER, "#kitchen:peer.test") == (
        "!room:a.example",
        ("a.example", "b.example"),
    )
    assert server.requests[0].query["room_alias"] == "#kitchen:peer.test"


@pytest.mark.parametrize("content", [{}, {"room_id": "!r:a.example"}, {"room_id": 1, "servers": []}])
async def test_an_alias_that_leads_nowhere(neighbourhood: Neighbourhood, content: dict[str, Any]) -> None:
    """The server's fault."""
    handshakes, _ = await started(neighbourhood, answering(content))
    with pytest.raises(PeerMalformed):
        await handshakes.directory(PEER, "#kitchen:peer.test")


async def test_an_invite_is_put(neighbourhood: Neighbourhood) -> None:
    """Its body is what the caller made; a refusal is a `PeerError`."""
    handshakes, server = await started(neighbourhood, answering({"event": {}}))
    body = {"room_version": "12", "event": {}, "invite_room_state": []}
    assert await handshakes.invite(PEER, "!room:a.example", "$e", body) == {"event": {}}
    assert server.requests[0].raw_path == "/_matrix/federation/v2/invite/%21room%3Aa.example/%24e"
    assert json.loads(server.bodies[0]) == body
    with pytest.raises(PeerError):
        await handshakes.invite("nowhere.test", "!room:a.example", "$e", body)
