"""A proxy to Postgres that hides the end of a connection: the last message arrives, and the connection then
stays open and silent. A client sees this for a moment whenever a server ends a connection; here the moment
lasts."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from storage.connect import DatabaseAddress
from storage.database import Database, connect_once

PORT = 5432
TURNS = 20
"""Of the event loop, within which what is written to a socket has been read at its other end."""


@dataclass
class Lingering:
    address: DatabaseAddress
    _database: Database
    _is_asked: bool = False
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _carrying: set[asyncio.Task[None]] = field(default_factory=set)
    _clients: list[asyncio.StreamWriter] = field(default_factory=list)

    def lose_clients(self) -> None:
        """Break the clients' connections without the server noticing."""
        for client in self._clients:
            client.transport.abort()

    async def end_holders(self) -> None:
        """Make the server end the sessions that hold advisory locks, and wait for its last messages."""
        await self._end("pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')")

    async def _end(self, which: str) -> None:
        self._ended.clear()
        self._is_asked = True
        admin = await connect_once(self._database.address)
        await admin.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND {which}"
        )
        await admin.close()
        await self._ended.wait()
        self._is_asked = False
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client connection."""
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._carrying.add(task)
        self._clients.append(writer)
        try:
            there, back = await self._onwards()
            forth = asyncio.create_task(_carry(reader, back))
            try:
                await _carry(there, writer)
                if self._is_asked:
                    self._ended.set()
                    await forth
            finally:
                forth.cancel()
                back.transport.abort()
        finally:
            writer.transport.abort()

    async def close(self) -> None:
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _onwards(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._database.connection() as connection:
            place = connection._addr
        if isinstance(place, str):
            return await asyncio.open_unix_connection(place)
        return await asyncio.open_connection(*place)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, also after the other has ended: neither side notices the end of the
    other."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            with contextlib.suppress(OSError):
                writer.write(data)
                await writer.drain()


@contextlib.asynccontextmanager
async def lingering(database: Database) -> AsyncIterator[Lingering]:
    with tempfile.TemporaryDirectory(prefix="palaver-link-") as directory:
        parts = urlsplit(database.address.url)
        address = DatabaseAddress.at_socket(
            Path(directory), PORT, parts.username or "palaver", database.address.database
        )
        link = Lingering(replace(address, password=database.address.password), database)
        server = await asyncio.start_unix_server(link.serve, str(Path(directory) / f".s.PGSQL.{PORT}"))
        try:
            yield link
        finally:
            server.close()
            await link.close()
            await server.wait_closed()
