"""Waits for a Postgres to accept connections, and sees to it that it has the node's database."""

import time

import asyncpg

from storage.address import DatabaseAddress
from storage.connecting import refusal
from storage.embedded.process import Process
from storage.statements import load

SQL = load("storage.embedded", "readiness.sql")

INTERVAL = 0.01
ATTEMPT = 5.0  # seconds for one connection: a server that takes it and says nothing counts as not ready


async def accepting(address: DatabaseAddress, process: Process, within: float) -> bool:
    """False when the process ends, or the time is over, before the database can be used.

    LocalError when it can be used, but not by us.
    """
    deadline = time.monotonic() + within
    while not await process.ended(INTERVAL):
        try:
            await greet(address, min(ATTEMPT, max(within, INTERVAL)))
        except (OSError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError):
            # No socket yet, or the server says that it is starting, recovering or stopping.
            if time.monotonic() >= deadline:
                return False
        except asyncpg.TooManyConnectionsError:
            # So many others are served that there is no doubt.
            return True
        except asyncpg.PostgresError as error:
            raise refusal(error, address) or error from error
        else:
            return True
    return False


async def greet(address: DatabaseAddress, within: float) -> None:
    try:
        connection = await asyncpg.connect(address.url, timeout=within)
    except asyncpg.InvalidCatalogNameError:
        # Created here rather than by initdb, so that a node killed between the two finds its way.
        connection = await asyncpg.connect(address.with_database("postgres").url, timeout=within)
        try:
            await connection.execute(SQL.create_database)
        finally:
            await connection.close()
    else:
        await connection.close()
