"""Loading and caching rooms."""

from federation.rooms.store import RoomStore
from storage.database import Database
from storage.rooms.rooms import RESERVED_IDS
from tests.support.graph import graph_on, join, raw
from tests.support.rooms import ALICE, BOB, CAROL, public_room


async def test_a_room_is_cached_until_it_changes(database: Database) -> None:
    """Merges and edges, which are immutable, are kept beyond that."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        store = RoomStore(database)
        first = (await store.rooms([room.room_id]))[room.room_id]
        assert (await store.rooms([room.room_id, "!unknown"])) == {room.room_id: first}
        assert store.cached_room(room.room_id) is first
        first.merges[frozenset({1, 2})] = 3
        joined = room.join(CAROL)
        await here.graph.receive("c.example", raw(joined))
        second = (await store.rooms([room.room_id]))[room.room_id]
        assert second.view.generation == first.view.generation + 1
        assert "c.example" in second.joined_servers
        assert second.merges is first.merges
        assert store.cached_room("!unknown") is None
        assert await store.rooms([]) == {}
        assert await store.version(room.room_id) is await RoomStore(database).version(room.room_id) is room.version


async def test_a_cached_outlier_is_read_again(database: Database) -> None:
    """If its position matters; otherwise the cached one is used."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        store, create = RoomStore(database), room.create.event_id
        (outlier,) = (await store.events([create])).values()
        assert outlier.is_outlier
        async with database.connection() as connection:
            await connection.execute("UPDATE events SET state_before = 1, state_after = 1 WHERE type = 'm.room.create'")
        assert (await store.events([create]))[create] is outlier
        assert not (await store.events([create], refresh_outliers=True))[create].is_outlier
        assert not (await store.events([create]))[create].is_outlier


async def test_state_group_ids_are_unique(database: Database) -> None:
    """Across blocks, and across processes."""
    one, other = RoomStore(database), RoomStore(database)
    async with database.transaction() as connection:
        given = [await store.next_group_id(connection) for _ in range(RESERVED_IDS + 5) for store in (one, other)]
    assert len(set(given)) == len(given)


async def test_a_state_is_read_from_its_snapshot_and_changes(database: Database) -> None:
    """And then cached."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        topics = [room.topic(ALICE, str(number)) for number in range(5)]
        await here.graph.receive("a.example", raw(*topics))
        view = await here.graph.room(room.room_id)
        assert view is not None
        store = RoomStore(database)
        group = await store.group(view.state_group)
        assert group.state["m.room.topic", ""] == topics[-1].event_id
        assert group.distance > 0
        assert await store.group(view.state_group) is group
