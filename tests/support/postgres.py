"""Postgres for the tests: a server for each test process, a new database for each test.

TEST_DATABASE_URL in the environment selects an existing server, with a role that may create databases.
Database names are random, so that several test processes can share it.
"""

import asyncio
import contextlib
import copy
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from storage.connect import DatabaseAddress
from storage.database import Connection, Database, connect_once
from storage.embedded import EmbeddedPostgres
from storage.embedded.home import free_space
from storage.migrate import migrate
from storage.session import Session

# What a crash of the machine would cost does not matter here, and most of the time goes into it.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
}
_OTHERS: "WeakKeyDictionary[Database, list[Session]]" = WeakKeyDictionary()
ENOUGH = 1 << 30  # bytes
CLOSING = 10.0  # seconds for a test to give its connections back


@dataclass
class Server:
    """Creates and drops databases. It chooses their names itself, so they can be part of a statement."""

    address: DatabaseAddress
    admin: Connection
    prefix: str = field(default_factory=lambda: f"palaver_test_{os.getpid()}_{secrets.token_hex(3)}")
    numbers: "count[int]" = field(default_factory=count)

    async def create(self, template: str = "template0") -> DatabaseAddress:
        name = f"{self.prefix}_{next(self.numbers)}"
        # A name cannot be a parameter of these two statements, which is why they are not in a .sql file.
        await self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.address.with_database(name)

    async def drop(self, address: DatabaseAddress) -> None:
        await self.admin.execute(f"DROP DATABASE IF EXISTS {address.database} WITH (FORCE)")


def as_role(address: DatabaseAddress, role: str, password: str) -> DatabaseAddress:
    """Return the address of the same database for another role."""
    return DatabaseAddress.from_url(re.sub("//(?:[^@/]*@)?", f"//{role}@", address.url, count=1), password)


@contextlib.asynccontextmanager
async def pool_on(address: DatabaseAddress, maximum: int = 10, retry_timeout: float = 10.0) -> AsyncIterator[Database]:
    """A pool on a database, closed at the end even if the test has kept a connection."""
    database = await Database.connect(address, minimum=1, maximum=maximum, retry_timeout=retry_timeout)
    try:
        yield database
    finally:
        async with asyncio.timeout(CLOSING):
            for session in _OTHERS.pop(database, []):
                await session.close()
            await database.close()


def as_another_process(database: Database) -> Database:
    """A pool with its own session, which is closed with the pool that it shares."""
    other = copy.copy(database)
    other.session = Session(database.address)
    _OTHERS.setdefault(database, []).append(other.session)
    return other


def lose_session(database: Database) -> None:
    """End a session as others see it when its process is killed. The process connects again and does not know
    that it should not."""
    connection = database.session._connection
    if connection is not None:
        connection.terminate()


async def end_sessions(database: Database) -> None:
    """Make Postgres end all connections that hold a lease or listen, as a restart does."""
    admin = await connect_once(database.address)
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
        " WHERE locktype = 'advisory' AND datname = current_database()"
    )
    await admin.close()


def quick_directory() -> str | None:
    """Return the directory for temporary Postgres data: in memory, if there is enough of it."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and free_space(shared) > ENOUGH else None


@pytest.fixture(scope="session")
async def postgres_server() -> AsyncIterator[Server]:
    url = os.environ.get("TEST_DATABASE_URL")
    if url is not None:
        address = DatabaseAddress.from_url(url)
        admin = await connect_once(address)
        try:
            yield Server(address, admin)
        finally:
            await admin.close()
        return
    directory = Path(tempfile.mkdtemp(prefix="palaver-test-", dir=quick_directory()))
    postgres = EmbeddedPostgres(directory, minimum_free_bytes=0, stop_timeout=5.0, settings=FAST)
    try:
        await postgres.start()
        address = postgres.address.with_database("postgres")
        admin = await connect_once(address)
        try:
            yield Server(address, admin)
        finally:
            await admin.close()
    finally:
        await postgres.stop()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def migrated_template(postgres_server: Server) -> AsyncIterator[str]:
    """The name of a database with the schema and no rows, which is copied for each test."""
    address = await postgres_server.create()
    try:
        async with pool_on(address) as database:
            await migrate(database)
        yield address.database
    finally:
        await postgres_server.drop(address)


@pytest.fixture
async def empty_address(postgres_server: Server) -> AsyncIterator[DatabaseAddress]:
    """An empty database, without the schema."""
    address = await postgres_server.create()
    try:
        yield address
    finally:
        await postgres_server.drop(address)


@pytest.fixture
async def database_address(postgres_server: Server, migrated_template: str) -> AsyncIterator[DatabaseAddress]:
    """A new database with the schema, for a test that creates its own pools or processes."""
    address = await postgres_server.create(migrated_template)
    try:
        yield address
    finally:
        await postgres_server.drop(address)


@pytest.fixture
async def database(database_address: DatabaseAddress) -> AsyncIterator[Database]:
    """A pool on a new database with the schema."""
    async with pool_on(database_address) as database:
        yield database
