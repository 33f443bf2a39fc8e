"""All operations of ghosts together."""

import pytest

from federation.matrix.capabilities import BackendCapability
from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.appservice.intakes import IntakeHarness
from tests.appservice.local_users.fake_homeserver import COOK, side_on


async def test_it_is_a_matrix_backend(database: Database, harness: IntakeHarness) -> None:
    """Its capabilities are implemented, and pushed events are read from its stream."""
    async with side_on(database, harness) as node_with_rooms:
        side = node_with_rooms.side
        assert side.server_name == "their.server"
        assert side.capabilities == {BackendCapability.TO_DEVICE}
        room_id = await node_with_rooms.room(alias="agents-kitchen")
        said = await side.send(room_id, COOK, "m.room.message", {"body": "soup"}, transaction_id="1")
        assert said == await side.send(room_id, COOK, "m.room.message", {"body": "soup"}, transaction_id="1")
        await node_with_rooms.tell()
        wanted = lambda event: event.room_id == room_id  # noqa: E731
        async with side.subscription("test", wanted=wanted) as subscription:
            entries = await subscription.next()
            assert said in [entry.event.event_id for entry in entries]
            assert (await side.lags())["test"] > 0
            async with database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position)
        assert (await side.lags())["test"] == 0


async def test_forgotten_room_is_created_again(database: Database, harness: IntakeHarness) -> None:
    """With the same key, but only after it was forgotten."""
    async with side_on(database, harness) as node_with_rooms:
        request = CreateRoomRequest(creator=COOK, key="k")
        first = (await node_with_rooms.side.create_room(request)).room_id
        await node_with_rooms.side.leave(first, COOK)
        assert (await node_with_rooms.side.create_room(request)).room_id == first
        await node_with_rooms.side.forget_created_room(first)
        assert (await node_with_rooms.side.create_room(request)).is_new


async def test_people_are_refused(database: Database, harness: IntakeHarness) -> None:
    """By every operation."""
    async with side_on(database, harness) as node_with_rooms:
        room_id = await node_with_rooms.room()
        for act in (
            node_with_rooms.side.send(room_id, "@alice:their.server", "m.x", {}),
            node_with_rooms.side.set_state(room_id, "@alice:their.server", "m.x", {}),
            node_with_rooms.side.join(room_id, "@alice:their.server"),
            node_with_rooms.side.upgrade_room(room_id, "@alice:their.server", "12"),
        ):
            with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
                await act
