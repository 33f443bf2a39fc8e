"""Double puppets."""

from storage.database import Database
from storage.people.double_puppets import PuppetRow, delete_puppet, fetch_puppet, mark_puppet_refused, upsert_puppet

ALICE = "@alice:their.server"
ROW = PuppetRow(ALICE, "login-1", b"sealed", 1_000)


async def test_a_person_has_one_double_puppet(database: Database) -> None:
    """A new one replaces it and is not refused yet."""
    async with database.transaction() as connection:
        assert await fetch_puppet(connection, ALICE) is None
        await upsert_puppet(connection, ROW)
        assert await fetch_puppet(connection, ALICE) == ROW
        await mark_puppet_refused(connection, ALICE, "login-1", 2_000)
        newer = PuppetRow(ALICE, "login-2", b"another", 3_000)
        await upsert_puppet(connection, newer)
        assert await fetch_puppet(connection, ALICE) == newer


async def test_a_refusal_applies_to_one_login(database: Database) -> None:
    """The first time is kept; a refusal of a replaced token changes nothing."""
    async with database.transaction() as connection:
        await upsert_puppet(connection, ROW)
        await mark_puppet_refused(connection, ALICE, "login-0", 1_500)
        assert await fetch_puppet(connection, ALICE) == ROW
        for at in (2_000, 2_500):
            await mark_puppet_refused(connection, ALICE, "login-1", at)
        assert await fetch_puppet(connection, ALICE) == ROW._replace(refused_at=2_000)


async def test_a_double_puppet_is_deleted_by_its_owner(database: Database) -> None:
    """The id of another person's puppet deletes nothing."""
    async with database.transaction() as connection:
        await upsert_puppet(connection, ROW)
        assert not await delete_puppet(connection, "@bob:their.server", "login-1")
        assert not await delete_puppet(connection, ALICE, "login-0")
        assert await delete_puppet(connection, ALICE, "login-1")
        assert await fetch_puppet(connection, ALICE) is None
