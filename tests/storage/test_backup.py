"""Backing up and restoring a database, completely or not at all."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.backup import SQL, client_environment, dump, restore
from storage.connect import DatabaseAddress
from storage.database import Database, connect_once
from storage.embedded import launcher
from storage.embedded.home import PORT, choose_identity
from storage.embedded.launch import ENVIRONMENT, libraries_directory, package_directory, pg_dump
from storage.errors import LocalError
from storage.node import claim
from storage.statements import Statements
from tests.storage.conftest import RUN_AS, owner
from tests.support.postgres import Server, as_role, pool_on

# One object of each type that the schema could contain, and rows that are difficult in a script.
CONTENT = r"""
CREATE TYPE mood AS ENUM ('fine', 'tired');
CREATE DOMAIN word AS text CHECK (value <> '');
CREATE TABLE parent (id bigserial PRIMARY KEY, mood mood, word word);
CREATE TABLE child (id bigint REFERENCES parent, body text);
CREATE TABLE part (n integer) PARTITION BY RANGE (n);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE VIEW seen AS SELECT word FROM parent;
CREATE MATERIALIZED VIEW kept AS SELECT word FROM parent;
CREATE FUNCTION twice(n integer) RETURNS integer LANGUAGE sql AS 'SELECT n * 2';
INSERT INTO parent (mood, word) VALUES ('fine', 'ä');
INSERT INTO child VALUES (1, E'\\.\nCOMMIT;\n\\restrict x\n\t$1');
INSERT INTO part VALUES (3);
CREATE TABLE bulk AS SELECT md5(n::text) FROM generate_series(1, 500) AS n;
"""


@pytest.fixture
async def full(database: Database) -> DatabaseAddress:
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
    async with database.connection() as connection:
        await connection.execute(CONTENT)
    return database.address


async def dump_text(address: DatabaseAddress) -> str:
    """The complete content of a database as a script."""
    process = await asyncio.create_subprocess_exec(
        pg_dump(), "--restrict-key=same", "--no-owner", f"--dbname={address.url}",
        env=client_environment(address), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def test_a_backup_restores_the_database(
    full: DatabaseAddress, empty_address: DatabaseAddress, tmp_path: Path
) -> None:
    """A dump of the restored database equals one of the original."""
    file = tmp_path / "backup"
    await dump(full, file)
    await restore(empty_address, file)
    assert await dump_text(empty_address) == await dump_text(full)


async def test_a_backup_appears_complete_with_mode_0600(full: DatabaseAddress, tmp_path: Path) -> None:
    """It is written under a temporary name and renamed at the end; no other file remains."""
    file = tmp_path / "backup"
    file.write_text("an older one")
    seen: list[bool] = []
    await dump(full, file, progress=lambda done, total, table: seen.append(file.read_text() == "an older one"))
    assert seen
    assert all(seen)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["backup"]


async def test_progress_counts_tables(full: DatabaseAddress, empty_address: DatabaseAddress, tmp_path: Path) -> None:
    """Dump and restore report each table with rows, and end with the total."""
    there: list[tuple[int, int, str]] = []
    back: list[tuple[int, int, str]] = []
    await dump(full, tmp_path / "backup", progress=lambda *step: there.append(step))
    await restore(empty_address, tmp_path / "backup", progress=lambda *step: back.append(step))
    tables = {"node", "schema_migrations", "parent", "child", "part_1", "bulk"}
    for steps in (there, back):
        assert {table for _, _, table in steps} >= tables
        assert [done for done, _, _ in steps] == list(range(1, len(steps) + 1))
        assert {total for _, total, _ in steps} == {len(steps)}


async def test_a_non_empty_database_is_not_overwritten(full: DatabaseAddress, tmp_path: Path) -> None:
    """Without `replace`, no existing data are changed."""
    await dump(full, tmp_path / "backup")
    before = await dump_text(full)
    with pytest.raises(LocalError) as refused:
        await restore(full, tmp_path / "backup")
    assert refused.value.problem == (
        f"The database {full.database} at {full.server} is not empty, and nothing was changed."
    )
    assert "replaced" in refused.value.advice
    assert await dump_text(full) == before


async def test_replacing_removes_objects_that_are_not_in_the_backup(
    full: DatabaseAddress, database: Database, tmp_path: Path
) -> None:
    """Tables of a later version would otherwise remain and block its migrations."""
    await dump(full, tmp_path / "backup")
    before = await dump_text(full)
    async with database.connection() as connection:
        await connection.execute(
            "CREATE TABLE later (id bigint REFERENCES parent); CREATE TYPE later_type AS ENUM ('a');"
            "CREATE FUNCTION later_function() RETURNS later_type LANGUAGE sql AS 'SELECT ''a''::later_type';"
            "DELETE FROM node"
        )
    await restore(full, tmp_path / "backup", replace=True)
    assert await dump_text(full) == before


@pytest.mark.parametrize("lost", [1, 500])
async def test_a_truncated_backup_changes_nothing(full: DatabaseAddress, tmp_path: Path, lost: int) -> None:
    """Everything is rolled back, including the removals, although psql cannot detect the missing end."""
    await dump(full, tmp_path / "backup")
    before = await dump_text(full)
    content = (tmp_path / "backup").read_bytes()
    (tmp_path / "damaged").write_bytes(content[:-lost])
    with pytest.raises(LocalError, match=r"damaged was not restored: .*end of file") as refused:
        await restore(full, tmp_path / "damaged", replace=True)
    assert refused.value.advice.startswith("Nothing was changed")
    assert await dump_text(full) == before


async def test_a_conflicting_object_makes_the_restore_fail(
    full: DatabaseAddress, empty_address: DatabaseAddress, tmp_path: Path
) -> None:
    """Objects that do not count as content, such as another schema, can conflict; then nothing is
    restored."""
    connection = await connect_once(full)
    try:
        await connection.execute("CREATE SCHEMA zoo; CREATE TABLE zoo.animal AS SELECT 1 AS id")
    finally:
        await connection.close()
    await dump(full, tmp_path / "backup")
    connection = await connect_once(empty_address)
    try:
        await connection.execute("CREATE SCHEMA zoo")
        with pytest.raises(LocalError) as refused:
            await restore(empty_address, tmp_path / "backup")
        assert refused.value.problem == f'{tmp_path}/backup was not restored: schema "zoo" already exists.'
        assert await connection.fetchval("SELECT to_regclass('public.node') IS NULL")
    finally:
        await connection.close()


async def test_a_restore_has_a_lock_timeout(
    full: DatabaseAddress, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that still uses the database makes the restore fail instead of hang."""
    await dump(full, tmp_path / "backup")
    short_timeout = {**SQL, "set_lock_timeout": "SET LOCAL lock_timeout = '50ms'"}
    monkeypatch.setattr("storage.backup.SQL", Statements("backup.sql", short_timeout))
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM node")
        with pytest.raises(LocalError, match="lock timeout"):
            await restore(full, tmp_path / "backup", replace=True)


async def test_a_file_that_is_not_a_backup_is_refused(empty_address: DatabaseAddress, tmp_path: Path) -> None:
    """A missing file, and a file of another type."""
    with pytest.raises(LocalError) as missing:
        await restore(empty_address, tmp_path / "nowhere")
    assert missing.value.problem == f"There is no backup {tmp_path}/nowhere."
    (tmp_path / "picture").write_bytes(b"GIF89a")
    with pytest.raises(LocalError) as other:
        await restore(empty_address, tmp_path / "picture")
    assert other.value.problem == f"{tmp_path}/picture is not a readable backup."


async def test_a_dump_that_cannot_be_written_is_refused(full: DatabaseAddress, tmp_path: Path) -> None:
    """The error names the directory, before the dump starts."""
    with pytest.raises(LocalError) as refused:
        await dump(full, tmp_path / "nowhere" / "backup")
    assert refused.value.problem == (f"No backup can be written into {tmp_path}/nowhere: No such file or directory.")


async def test_a_dump_that_fails_leaves_no_file(full: DatabaseAddress, postgres_server: Server, tmp_path: Path) -> None:
    """In this test a role may not read the tables."""
    role = f"{full.database}_guest"
    await postgres_server.admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'guest'")
    try:
        with pytest.raises(LocalError, match=f"The backup of {full.database} failed: .*permission denied"):
            await dump(as_role(full, role, "guest"), tmp_path / "backup")
    finally:
        await postgres_server.admin.execute(f"DROP ROLE {role}")
    assert list(tmp_path.iterdir()) == []


async def test_the_owner_of_a_database_can_replace_it(
    full: DatabaseAddress, empty_address: DatabaseAddress, postgres_server: Server, tmp_path: Path
) -> None:
    """On an external server a node owns its database and has no other rights."""
    role = f"{empty_address.database}_owner"
    await dump(full, tmp_path / "backup")
    await postgres_server.admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'owner'")
    try:
        await postgres_server.admin.execute(f"ALTER DATABASE {empty_address.database} OWNER TO {role}")
        address = as_role(empty_address, role, "owner")
        await restore(address, tmp_path / "backup")
        await restore(address, tmp_path / "backup", replace=True)
        assert await dump_text(address) == await dump_text(full)
        connection = await connect_once(empty_address)
        try:
            await connection.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
        finally:
            await connection.close()
        await postgres_server.admin.execute(f"ALTER DATABASE {empty_address.database} OWNER TO CURRENT_USER")
    finally:
        await postgres_server.admin.execute(f"DROP ROLE {role}")


@pytest.fixture
async def older_server(empty_directory: Path) -> AsyncIterator[DatabaseAddress]:
    """Postgres 16, which the package includes for upgrades."""
    home = empty_directory / "postgres"
    home.mkdir(mode=0o700)
    os.chown(home, *owner())
    empty_directory.chmod(0o711)
    user = choose_identity(RUN_AS, os.geteuid())
    places = {"programs": package_directory(), "libraries": libraries_directory(), "home": home}

    def start(program: str, *arguments: str, log: str | None = None) -> "subprocess.Popen[bytes]":
        plan = {
            "directories": {name: str(path) for name, path in places.items() if path is not None},
            "user": {"uid": user.uid, "gid": user.gid, "groups": user.groups} if user is not None else None,
            "parent": os.getpid(),
            "program": f"@programs@/pginstall/bin/{program}",
            "arguments": arguments,
            "log": log,
            "log_limit": 1000000,
            "environment": ENVIRONMENT,
        }
        words = [sys.executable, "-I", "-S", launcher.__file__, json.dumps(plan)]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    assert start("initdb", "-D", "@home@/16", "-U", "palaver", "-E", "UTF8", "--locale=C", "-N").wait() == 0
    server = start("postgres", "-D", "@home@/16", "-k", "@home@", "-h", "", "-F", log="@home@/log")
    try:
        address = DatabaseAddress.at_socket(home, PORT, "palaver", "postgres")
        while True:
            try:
                connection = await connect_once(address)
            except LocalError:
                assert server.poll() is None, (home / "log").read_text()
                await asyncio.sleep(0.01)
            else:
                await connection.close()
                break
        yield address
    finally:
        server.send_signal(2)
        server.wait()


async def test_older_servers_are_supported(
    full: DatabaseAddress, older_server: DatabaseAddress, tmp_path: Path
) -> None:
    """A backup of the newest server can be restored into an older one with the newest programs."""
    await dump(full, tmp_path / "backup")
    await restore(older_server, tmp_path / "backup")
    await restore(older_server, tmp_path / "backup", replace=True)
    async with pool_on(older_server) as database, database.transaction() as connection:
        await claim(connection, "kitchen.local")
        assert await connection.fetchval("SHOW server_version_num") < "170000"
    await dump(older_server, tmp_path / "again")
