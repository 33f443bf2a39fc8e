"""Waits for a Postgres to accept connections, and sees to it that it has the node's database."""

import time

import asyncpg

from storage.address import DatabaseAddress
from storage.embedded.process import Process
from storage.statements import load

SQL = load("storage.embedded", "readiness.sql")

INTERVAL = 0.01
ATTEMPT = 5.0  # seconds for one connection: a server that takes it and says nothing counts as not ready


async def accepting(address: DatabaseAddress, process: Process, within: float) -> bool:
    """False when the process ends, or the time is over, before the database can be used."""
    deadline = time.monotonic() + within
    while not await process.ended(INTERVAL):
        try:
            await greet(address)
        except (OSError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError):
            # No socket yet, or the server says that it is starting, recovering or stopping.
            if time.monotonic() >= deadline:
                return False
        else:
            return True
    return False


async def greet(address: DatabaseAddress) -> None:
    try:
        connection = await asyncpg.connect(address.url, timeout=ATTEMPT)
    except asyncpg.InvalidCatalogNameError:
        # Created here rather than by initdb, so that a node killed between the two finds its way.
        connection = await asyncpg.connect(address.with_database("postgres").url, timeout=ATTEMPT)
        try:
            await connection.execute(SQL.create_database)
        finally:
            await connection.close()
    else:
        await connection.close()
