"""Users, their profiles, and pending profile changes."""

from storage.database import Database
from storage.federation.users import (
    ProfileChange,
    delete_change,
    fetch_profile,
    insert_change,
    insert_user,
    is_user,
    list_changes,
    lock_profile,
    update_profile,
)

ALICE = "@alice:here.test"


async def test_a_user_is_inserted_once(database: Database) -> None:
    """A second insert changes nothing, including the profile."""
    async with database.transaction() as connection:
        assert not await is_user(connection, ALICE)
        assert await fetch_profile(connection, ALICE) is None
        assert await lock_profile(connection, ALICE) is None
        assert await insert_user(connection, ALICE, 5)
        assert await fetch_profile(connection, ALICE) == {}
        profile = {"displayname": "Äda", "m.tz": "Europe/Berlin", "x.y": [1, {"z": None}]}
        await update_profile(connection, ALICE, profile)
        assert not await insert_user(connection, ALICE, 6)
        assert await is_user(connection, ALICE)
        assert await fetch_profile(connection, ALICE) == profile
        assert await lock_profile(connection, ALICE) == profile


async def test_a_later_profile_change_stays_pending(database: Database) -> None:
    """Only the change that was sent is deleted; a later one has another number."""
    async with database.transaction() as connection:
        await insert_change(connection, ALICE)
        await insert_change(connection, "@bob:here.test")
        first, second = await list_changes(connection, 0, 10)
        assert (first.user_id, second.user_id) == (ALICE, "@bob:here.test")
        assert await list_changes(connection, 0, 1) == [first]
        assert await list_changes(connection, first.number, 10) == [second]
        await insert_change(connection, ALICE)
        await delete_change(connection, first)
        assert [change.user_id for change in await list_changes(connection, 0, 10)] == ["@bob:here.test", ALICE]
        await delete_change(connection, second)
        [last] = await list_changes(connection, 0, 10)
        assert last == ProfileChange(ALICE, last.number)
        assert last.number > second.number
        await delete_change(connection, last)
        assert await list_changes(connection, 0, 10) == []
