"""Invites that are sent while this server is joining the room."""

import asyncio

from federation.memberships.incoming import MembershipRequestHandler
from federation.memberships.inviting import invite_request
from federation.memberships.late_invites import LateInvites
from storage.database import Database
from tests.support.graph import HERE, NOW, Graph, graph_on, join
from tests.support.rooms import ALICE, Room, public_room, signer

YOU = f"@you:{HERE}"
TIMEOUT = 30.0


async def allow_all(user: str, sender: str, room_id: str) -> None:
    """An invite policy that refuses no invite."""


def requests_on(here: Graph, late: LateInvites) -> MembershipRequestHandler:
    return MembershipRequestHandler(
        HERE,
        here.graph,
        here.keys,
        here.database,
        lambda: signer(HERE),
        now_ms=lambda: NOW,
        invite_policy=allow_all,
        on_invite_signed=late.schedule,
    )


async def memberships(here: Graph, room: Room) -> list[object]:
    found = await here.graph.current_events(room.room_id, [("m.room.member", YOU)])
    return [event.membership for event in found.values()]


async def test_an_invite_becomes_part_of_the_room(database: Database) -> None:
    """Even if its server does not send it again; and only once if it does."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        late = LateInvites(here.graph, delay=0)
        invite = room.propose("m.room.member", ALICE, {"membership": "invite"}, YOU)
        body = invite_request(invite, room.state(), room.version)
        position = await here.graph.stream.last_position()
        for _ in range(2):
            await requests_on(here, late).receive_invite("a.example", room.room_id, invite.event_id, body)
            async with asyncio.timeout(TIMEOUT):
                while await memberships(here, room) != ["invite"]:
                    await here.graph.stream.reader(position).next()
            await late._pending.drain(TIMEOUT)
        assert [entry.event.event_id for entry in await here.graph.stream.reader(position).next()] == [invite.event_id]


async def test_close_cancels_pending_invites(database: Database) -> None:
    """They arrive when another event follows them."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        late = LateInvites(here.graph, delay=TIMEOUT)
        invite = room.propose("m.room.member", ALICE, {"membership": "invite"}, YOU)
        late.schedule("a.example", invite.event)
        await late.close()
        assert await memberships(here, room) == []


async def test_an_invalid_event_is_ignored(database: Database) -> None:
    """It is checked like every received event."""
    room = public_room("11")
    async with graph_on(database, room) as here:
        await join(here, room)
        late = LateInvites(here.graph, delay=0)
        for event in ({}, {"room_id": room.room_id, "type": 7}, {"room_id": "!elsewhere:a.example"}):
            late.schedule("a.example", event)
        await late._pending.drain(TIMEOUT)
        assert await memberships(here, room) == []
