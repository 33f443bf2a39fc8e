"""States as snapshots and changes."""

from storage.database import Database
from storage.rooms.rooms import RESERVED_IDS, StateGroupRow, fetch_chain, insert_state_groups, reserve_ids


async def test_ids_are_reserved_in_blocks(database: Database) -> None:
    """The increment of the sequence equals the constant."""
    async with database.transaction() as connection:
        first, second = await reserve_ids(connection), await reserve_ids(connection)
    assert len(first) == len(second) == RESERVED_IDS
    assert not set(first) & set(second)


async def test_a_group_is_read_with_its_parents(database: Database) -> None:
    """The snapshot first, then each change."""
    snapshot = StateGroupRow(1, "!room", None, 0, ["t", "t"], ["", "k"], ["$a", "$b"])
    changed = StateGroupRow(2, "!room", 1, 1, ["t"], [""], ["$c"])
    removed = StateGroupRow(5, "!room", 2, 2, ["t"], ["k"], [None])
    async with database.transaction() as connection:
        await insert_state_groups(connection, [removed, snapshot, changed])
        await insert_state_groups(connection, [])
        assert await fetch_chain(connection, 5) == [snapshot, changed, removed]
        assert await fetch_chain(connection, 1) == [snapshot]
        assert await fetch_chain(connection, 3) == []
