"""Reading the state that decisions about memberships need."""

import pytest

from federation.matrix.errors import MatrixError
from federation.memberships.room_state import MembershipStateReader
from storage.database import Database
from tests.federation.standing import OTHER_ROOM, restricted_room
from tests.support.graph import HERE, US, graph_on, join
from tests.support.rooms import ALICE, BOB, CAROL, public_room


async def test_a_room_is_known_while_a_local_user_is_joined(database: Database) -> None:
    """Otherwise it is not found."""
    room = public_room("12")
    async with graph_on(database, room) as here:
        state = MembershipStateReader(HERE, here.graph)
        assert not await state.is_server_joined(room.room_id)
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await state.version(room.room_id)
        await join(here, room)
        assert await state.is_server_joined(room.room_id)
        assert await state.version(room.room_id) is room.version
        await here.graph.send_event(room.room_id, "m.room.member", {"membership": "leave"}, US, US)
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await state.of(room.room_id)


async def test_local_members_of_a_restricted_room_are_loaded(database: Database) -> None:
    """One of them may have to authorise a join. Members of other servers are not loaded."""
    room = restricted_room("12", OTHER_ROOM)
    room.member(ALICE, US, "invite")
    async with graph_on(database, room) as here:
        await join(here, room)
        state = MembershipStateReader(HERE, here.graph)
        part = await state.for_join(room.room_id, BOB)
        members = {key[1] for key in part.events if key[0] == "m.room.member"}
        assert members == {US}
        # This server is not in the allowed room, so it does not know the membership.
        assert await state.memberships_elsewhere(BOB, part) == {}


async def test_memberships_in_allowed_rooms(database: Database) -> None:
    """The user is joined, or has never been a member."""
    condition = public_room("12", BOB, number=1)
    async with graph_on(database, condition) as here:
        await join(here, condition)
        room = restricted_room("12", condition.room_id, OTHER_ROOM)
        room.member(ALICE, US, "invite")
        await join(here, room)
        state = MembershipStateReader(HERE, here.graph)
        part = await state.for_join(room.room_id, BOB)
        assert await state.memberships_elsewhere(BOB, part) == {condition.room_id: "join"}
        assert await state.memberships_elsewhere(CAROL, part) == {condition.room_id: None}


async def test_the_state_for_a_join_of_a_public_room(database: Database) -> None:
    """The create event, the join rules, the power levels, and the user's membership."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        part = await MembershipStateReader(HERE, here.graph).for_join(room.room_id, BOB)
        assert {key[0] for key in part.events} == {
            "m.room.create",
            "m.room.join_rules",
            "m.room.power_levels",
            "m.room.member",
        }
        assert ("m.room.member", ALICE) not in part.events
