"""A Postgres for one run, as durable as the one a node runs on."""

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
    """Where it is reached, and what decides how fast it can be."""

    address: str
    version: str
    filesystem: str
    pid: int

    @property
    def remarks(self) -> list[str]:
        """For under the table."""
        memory = ", where fsync costs nothing (TMPDIR chooses another)" if self.filesystem == "tmpfs" else ""
        settings = ", ".join(f"{setting} on" for setting in _DURABLE)
        return [f"Postgres {self.version} over a Unix socket, {settings}, on {self.filesystem}{memory}."]


@asynccontextmanager
async def connected(address: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A connection for as long as the block runs."""
    connection = await asyncpg.connect(address)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def database() -> AsyncIterator[Database]:
    """A fresh one in a temporary directory, stopped and removed whatever happens."""
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
