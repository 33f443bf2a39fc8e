"""Invites that come while this server is coming into the room."""

import asyncio

from federation.memberships.incoming import MembershipRequestHandler
from federation.memberships.inviting import request
from federation.memberships.late_invites import LateInvites
from storage.database import Database
from tests.support.graph import HERE, NOW, Graph, graph_on, join
from tests.support.rooms import ALICE, Room, public_room, signer

YOU = f"@you:{HERE}"
TIMEOUT = 30.0


async def anybody(user: str, sender: str, room_id: str) -> None:
    """May be invited."""


def requests_on(here: Graph, late: LateInvites) -> MembershipRequestHandler:
    return MembershipRequestHandler(
        HERE,
        here.graph,
        here.keys,
        here.database,
        lambda: signer(HERE),
        now_ms=lambda: NOW,
        may_be_invited=anybody,
        signed=late.signed,
    )


async def memberships(here: Graph, room: Room) -> list[object]:
    found = await here.graph.current_events(room.room_id, [("m.room.member", YOU)])
    return [event.membership for event in found.values()]


async def test_an_invite_becomes_part_of_the_room(database: Database) -> None:
    """Though its server sends it no second time; and once, if it does."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        late = LateInvites(here.graph, pause=0)
        invite = room.propose("m.room.member", ALICE, {"membership": "invite"}, YOU)
        body = request(invite, room.state(), room.version)
        position = await here.graph.stream.last_position()
        for _ in range(2):
            await requests_on(here, late).receive_invite("a.example", room.room_id, invite.event_id, body)
            async with asyncio.timeout(TIMEOUT):
                while await memberships(here, room) != ["invite"]:
                    await here.graph.stream.reader(position).next()
            await late._waiting.drain(TIMEOUT)
        assert [entry.event.event_id for entry in await here.graph.stream.reader(position).next()] == [
            invite.event_id
        ]


async def test_what_still_waits_is_left(database: Database) -> None:
    """When the server stops: it comes when something follows it."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        late = LateInvites(here.graph, pause=TIMEOUT)
        invite = room.propose("m.room.member", ALICE, {"membership": "invite"}, YOU)
        late.signed("a.example", invite.event)
        await late.close()
        assert await memberships(here, room) == []


async def test_what_is_wrong_with_one_is_no_harm(database: Database) -> None:
    """It is judged like everything that comes."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        late = LateInvites(here.graph, pause=0)
        for event in ({}, {"room_id": room.room_id, "type": 7}, {"room_id": "!elsewhere:a.example"}):
            late.signed("a.example", event)
        await late._waiting.drain(TIMEOUT)
        assert await memberships(here, room) == []
