"""The room engine as a whole."""

import pytest

from federation.events.received import ACCEPTED
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from storage.database import Database
from tests.support.graph import HERE, US, graph_on, join, raw, streamed
from tests.support.rooms import ALICE, BOB, Room, public_room

VERSIONS = pytest.mark.parametrize("version", ["3", "6", "10", "11", "12"])


@VERSIONS
async def test_a_joined_room_receives_and_sends(version: str, database: Database) -> None:
    """Local events follow the received ones."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        rooms = here.graph
        joined = await join(here, room)
        first, second = room.say(ALICE, "one"), room.say(BOB, "two")
        results = await rooms.receive("a.example", raw(second, first))
        assert results == {first.event_id: ACCEPTED, second.event_id: ACCEPTED}
        local_event = await rooms.send_event(room.room_id, "m.room.message", {"body": "three"}, US)
        assert local_event.prev_events == (second.event_id,)
        assert local_event.depth == second.depth + 1
        view = await rooms.room(room.room_id)
        assert view is not None
        assert view.forward_extremities == (local_event.event_id,)
        assert here.hook.ids == [joined.event_id, first.event_id, second.event_id, local_event.event_id]
        assert here.peer.calls == []


@VERSIONS
async def test_a_local_room(version: str, database: Database) -> None:
    """It is created, and read."""
    async with graph_on(database, Room("12")) as here:
        room_version = ROOM_VERSIONS[version]
        named = None if room_version.create_event_is_room_id else f"!named:{HERE}"
        events = [
            NewEvent("m.room.create", US, {}, ""),
            NewEvent("m.room.member", US, {"membership": "join"}, US),
            NewEvent("m.room.power_levels", US, {"users": {} if named is None else {US: 100}}, ""),
            NewEvent("m.room.join_rules", US, {"join_rule": "public"}, ""),
        ]
        made = await here.graph.create_room(room_version, events, room_id=named)
        room_id = made[0].room_id
        assert named in (None, room_id)
        state = await here.graph.current_state(room_id)
        assert list(state.values()) == [pdu.event_id for pdu in made]
        assert await here.graph.servers_in_room(room_id) == {HERE}
        assert await streamed(here.graph, 0) == made
        if named is not None:
            with pytest.raises(MatrixError, match="M_ROOM_IN_USE"):
                await here.graph.create_room(room_version, events, room_id=named)
