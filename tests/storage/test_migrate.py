"""Migrating the schema."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from storage.connect import DatabaseAddress
from storage.database import Database
from storage.errors import LocalError
from storage.migrate import AppliedMigration, Migration, migrate, plan_migrations, read_migrations
from tests.support.postgres import Server, as_role, pool_on

ONE, TWO, THREE = (Migration(number, f"step_{number}", f"SELECT {number}") for number in (1, 2, 3))


def applied(*migrations: Migration) -> list[AppliedMigration]:
    return [AppliedMigration(each.version, each.name, each.checksum) for each in migrations]


@pytest.mark.parametrize(("done", "steps"), [([], (ONE, TWO, THREE)), ([ONE], (TWO, THREE)), ([ONE, TWO, THREE], ())])
def test_pending_migrations_are_applied_in_order(done: list[Migration], steps: tuple[Migration, ...]) -> None:
    """The plan has the available migrations that are not applied yet, by number."""
    assert plan_migrations(applied(*done), [ONE, TWO, THREE]) == steps


def test_a_newer_schema_is_refused() -> None:
    """An older Palaver must not write to tables of a newer one. The error names both versions."""
    refused = plan_migrations(applied(ONE, TWO, THREE), [ONE])
    assert isinstance(refused, LocalError)
    assert refused.problem == "The database has schema version 3, and this Palaver knows versions up to 1."
    assert refused.advice == ("Run the newer Palaver that upgraded it, or restore a backup from before the upgrade.")


def test_a_changed_migration_is_refused() -> None:
    """If an applied migration differs from its file, the state of the tables is unknown."""
    refused = plan_migrations([AppliedMigration(1, "step_1", "other")], [ONE, TWO])
    assert isinstance(refused, LocalError)
    assert refused.problem == "Migration 0001 (step_1) differs from the one applied to this database."
    assert "restore a backup" in refused.advice


def test_a_gap_is_refused() -> None:
    """A later migration needs the tables of the missing one."""
    refused = plan_migrations(applied(ONE, THREE), [ONE, TWO, THREE])
    assert isinstance(refused, LocalError)
    assert refused.problem == "The database has schema version 3 without migration 0002."


def test_migrations_are_read_by_their_numbers(tmp_path: Path) -> None:
    """Other files in the directory are ignored."""
    for name in ("0002_second.sql", "0001_first.sql", "schema.sql", "0003_no.txt"):
        (tmp_path / name).write_text(name)
    assert [(each.version, each.name, each.sql) for each in read_migrations(tmp_path)] == [
        (1, "first", "0001_first.sql"),
        (2, "second", "0002_second.sql"),
    ]


def test_a_missing_number_is_a_bug(tmp_path: Path) -> None:
    """It finds two branches that add the same number, and a file that is missing in a wheel."""
    (tmp_path / "0002_second.sql").write_text("")
    with pytest.raises(AssertionError, match="without a gap"):
        read_migrations(tmp_path)


async def test_progress_is_reported_and_migrations_are_recorded(empty_address: DatabaseAddress) -> None:
    """Each migration is recorded with its checksum; a second run does nothing."""
    available = read_migrations()
    seen: list[tuple[int, int, str]] = []
    async with pool_on(empty_address) as database:
        version = await migrate(database, progress=lambda *step: seen.append(step))
        again = await migrate(database, progress=lambda *step: seen.append(step))
        async with database.connection() as connection:
            rows = await connection.fetch("SELECT version, name, checksum FROM schema_migrations ORDER BY 1")
    total = len(available)
    assert version == again == total
    assert seen == [
        *((number, total, step.name) for number, step in enumerate(available)),
        (total, total, available[-1].name),
    ]
    assert [tuple(row) for row in rows] == [(each.version, each.name, each.checksum) for each in available]


async def test_two_concurrent_migrations_succeed(empty_address: DatabaseAddress) -> None:
    """One waits for the lock and then has nothing to do."""
    steps: list[str] = []
    async with pool_on(empty_address) as first, pool_on(empty_address) as second:
        versions = await asyncio.gather(
            *(
                migrate(database, progress=lambda done, total, name: steps.append(name) if done < total else None)
                for database in (first, second)
            )
        )
    assert set(versions) == {len(read_migrations())}
    assert steps == [each.name for each in read_migrations()]


async def test_a_failed_migration_is_rolled_back(
    empty_address: DatabaseAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each migration has its own transaction; the previous ones stay."""
    (tmp_path / "0001_good.sql").write_text("CREATE TABLE good (id integer);")
    (tmp_path / "0002_bad.sql").write_text("CREATE TABLE bad (id integer); SELECT 1/0;")
    monkeypatch.setattr("storage.migrate.files", lambda package: tmp_path)
    async with pool_on(empty_address) as database:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(database)
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT to_regclass('good') IS NOT NULL")
            assert await connection.fetchval("SELECT to_regclass('bad') IS NULL")
            assert await connection.fetchval("SELECT max(version) FROM schema_migrations") == 1
        # The lock was released; otherwise the next attempt would wait forever.
        (tmp_path / "0002_bad.sql").write_text("CREATE TABLE bad (id integer);")
        assert await migrate(database) == 2


async def test_a_newer_schema_in_a_real_database_is_refused(database: Database) -> None:
    """Before anything is written."""
    async with database.connection() as connection:
        await connection.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 'x', now())")
    with pytest.raises(LocalError, match="The database has schema version 9999"):
        await migrate(database)


async def test_a_role_without_the_right_to_create_tables_is_refused(
    postgres_server: Server, empty_address: DatabaseAddress
) -> None:
    """Since Postgres 15 only its owner may create tables in a database."""
    role = f"{empty_address.database}_guest"
    await postgres_server.admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'guest'")
    try:
        async with pool_on(as_role(empty_address, role, "guest")) as database:
            with pytest.raises(LocalError) as refused:
                await migrate(database)
        assert f"does not let the role {role} use {empty_address.database}" in refused.value.problem
        assert "owner of the database" in refused.value.advice
    finally:
        await postgres_server.admin.execute(f"DROP ROLE {role}")
