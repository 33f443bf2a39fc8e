"""Migrates a database to the schema of this version: plans without I/O, then applies the plan under one
lock."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import asyncpg

from storage.connect import explain_connection_error
from storage.database import Connection, Database
from storage.errors import LocalError
from storage.statements import load

SQL = load("storage", "migrate.sql")
FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
LOCK = 0x50414C41  # "PALA": any number that no other advisory lock uses

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    version: int
    name: str
    checksum: str


def plan_migrations(
    applied: Sequence[AppliedMigration], available: Sequence[Migration]
) -> tuple[Migration, ...] | LocalError:
    """The pending migrations in order, or the reason why none may be applied."""
    known = {migration.version: migration for migration in available}
    newest = max(known, default=0)
    for row in applied:
        if row.version > newest:
            return LocalError(
                f"The database has schema version {max(row.version for row in applied)}, "
                f"and this Palaver knows versions up to {newest}.",
                "Run the newer Palaver that upgraded it, or restore a backup from before the upgrade.",
            )
        if row.checksum != known[row.version].checksum:
            return LocalError(
                f"Migration {row.version:04} ({row.name}) differs from the one applied to this database.",
                "Run a released Palaver, or restore a backup: the state of the tables is unknown.",
            )
    done = {row.version for row in applied}
    missing = sorted(set(range(1, max(done, default=0))) - done)
    if missing:
        return LocalError(
            f"The database has schema version {max(done)} without migration {missing[0]:04}.",
            "Restore a backup: the state of the tables is unknown.",
        )
    return tuple(known[version] for version in sorted(known.keys() - done))


async def migrate(database: Database, *, progress: Progress = lambda done, total, name: None) -> int:
    """Apply the pending migrations and return the schema version. Other processes that migrate at the same
    time wait.

    `progress(done, total, name)` is called before each migration, and after the last one with its name.
    """
    available = read_migrations()
    try:
        async with database.connection() as connection:
            # Released with the connection.
            await connection.execute(SQL.lock, LOCK)
            await connection.execute(SQL.create_migrations_table)
            rows = await connection.fetch(SQL.fetch_applied)
            steps = plan_migrations([AppliedMigration(**row) for row in rows], available)
            if isinstance(steps, LocalError):
                raise steps
            for done, step in enumerate(steps):
                progress(done, len(steps), step.name)
                await apply_migration(connection, step)
    except asyncpg.InsufficientPrivilegeError as error:
        raise explain_connection_error(error, database.address) or error from error
    if steps:
        progress(len(steps), len(steps), steps[-1].name)
    return len(available)


async def pending_migrations(connection: Connection) -> tuple[Migration, ...] | LocalError:
    """The migrations that `migrate` would apply, or the reason why it would refuse."""
    rows = await connection.fetch(SQL.fetch_applied) if await connection.fetchval(SQL.migrations_table_exists) else []
    return plan_migrations([AppliedMigration(**row) for row in rows], read_migrations())


async def apply_migration(connection: Connection, step: Migration) -> None:
    async with connection.transaction():
        await connection.execute(step.sql)
        await connection.execute(SQL.insert_applied, step.version, step.name, step.checksum)


def read_migrations(directory: Traversable | None = None) -> list[Migration]:
    found = []
    for file in (directory or files("migrations")).iterdir():
        match = FILE_NAME.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match["version"]), match["name"], file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    versions = [migration.version for migration in found]
    assert versions == list(range(1, len(found) + 1)), f"migrations are numbered from 1 without a gap: {versions}"
    return found
