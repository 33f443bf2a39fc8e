"""A Postgres for one run, with the same durability as a node's."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bench._harness.machine import filesystem
from storage.embedded import EmbeddedPostgres

_DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


@dataclass(frozen=True, slots=True)
class Database:
    """Its address, and the settings that decide its speed."""

    address: str
    version: str
    filesystem: str
    pid: int

    @property
    def remarks(self) -> list[str]:
        """Return the remarks for the table."""
        memory = ", where fsync costs nothing (TMPDIR chooses another)" if self.filesystem == "tmpfs" else ""
        settings = ", ".join(f"{setting} on" for setting in _DURABLE)
        return [f"Postgres {self.version} over a Unix socket, {settings}, on {self.filesystem}{memory}."]


@asynccontextmanager
async def connected(address: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """Open a connection for the block."""
    connection = await asyncpg.connect(address)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def database() -> AsyncIterator[Database]:
    """Start a new server in a temporary directory; it is stopped and removed at the end."""
    with tempfile.TemporaryDirectory() as directory:
        postgres = EmbeddedPostgres(Path(directory))
        await postgres.start()
        try:
            async with connected(postgres.address.url) as connection:
                await _insist_on_durability(connection)
                version: str = await connection.fetchval("SELECT current_setting('server_version')")
            assert postgres.pid is not None, "it has been started"
            yield Database(postgres.address.url, version, filesystem(Path(directory)), postgres.pid)
        finally:
            await postgres.stop()


async def _insist_on_durability(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    for setting in _DURABLE:
        value = await connection.fetchval("SELECT current_setting($1)", setting)
        assert value == "on", f"commits are measured with {setting} on, here it is {value}"
