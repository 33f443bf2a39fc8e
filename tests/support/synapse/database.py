"""The database of a Synapse: an SQLite file, or a database on a Postgres server."""

import fcntl
import hashlib
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from storage.connect import DatabaseAddress

REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "synapse.txt"


class Database(Protocol):
    def section(self) -> dict[str, Any]:
        """Return the database section of the configuration."""
        ...

    async def pending_updates(self) -> int:
        """Return the number of background schema updates that Synapse still has to run."""
        ...

    async def drop(self) -> None:
        """Once no process uses it."""
        ...


@dataclass(frozen=True)
class SQLite:
    file: Path

    def section(self) -> dict[str, Any]:
        return {"name": "sqlite3", "args": {"database": str(self.file)}}

    async def pending_updates(self) -> int:
        with closing(sqlite3.connect(self.file)) as connection:
            [count] = connection.execute("SELECT count(*) FROM background_updates").fetchone()
        return int(count)

    def lose_transactions(self) -> int:
        """Delete the queued transactions for application services, as if Synapse had ended before writing
        them; return their number."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute("DELETE FROM application_services_txns").rowcount

    def waits_for_appservice(self, event_id: str) -> bool:
        """Return whether the event is in an unacknowledged transaction."""
        with closing(sqlite3.connect(self.file)) as connection:
            rows = connection.execute("SELECT event_ids FROM application_services_txns").fetchall()
        return any(event_id in event_ids for (event_ids,) in rows)

    async def drop(self) -> None:
        """The file is removed with its directory."""

    async def fill(self, kept: Path, make: Callable[[Path], Awaitable[None]]) -> None:
        """Copy the cached empty database of this version of Synapse; the first caller creates it.

        This halves the start time of a Synapse.
        """
        version = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
        empty = kept / f"empty-{version}.db"
        with (kept / "empty.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not empty.exists():
                unfinished = kept / "empty.unfinished"
                unfinished.unlink(missing_ok=True)
                await make(unfinished)
                unfinished.replace(empty)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(empty, self.file)


@dataclass(frozen=True)
class Postgres:
    server: DatabaseAddress  # any database there, for a role that may create others
    name: str

    @property
    def address(self) -> DatabaseAddress:
        return self.server.with_database(self.name)

    def section(self) -> dict[str, Any]:
        arguments = {"dsn": self.address.url, "cp_min": 1, "cp_max": 10}
        if self.address.password is not None:
            arguments["password"] = self.address.password
        return {"name": "psycopg2", "args": arguments}

    async def create(self) -> None:
        # Synapse refuses any other encoding and order.
        await self._on_server(f"CREATE DATABASE \"{self.name}\" ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0")

    async def pending_updates(self) -> int:
        connection = await asyncpg.connect(self.address.url, password=self.address.password)
        try:
            return int(await connection.fetchval("SELECT count(*) FROM background_updates"))
        finally:
            await connection.close()

    async def drop(self) -> None:
        await self._on_server(f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')

    async def _on_server(self, statement: str) -> None:
        connection = await asyncpg.connect(self.server.url, password=self.server.password)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
