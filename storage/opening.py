"""Opening a connection to Postgres as all of a node are: its settings, and JSON as plain values."""

from typing import TypeAlias

import asyncpg
import orjson

from storage.address import DatabaseAddress
from storage.connecting import refusal

# Quoted: only the types of asyncpg are generic, not its classes.
Single: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Tables are in one schema, whatever a server gives its roles to search first.
SETTINGS = {"application_name": "palaver", "timezone": "UTC", "search_path": "public"}


async def open_connection(address: DatabaseAddress, *, connect_timeout: float) -> Single:
    """To be closed by the caller. What goes wrong is raised as the driver says it."""
    connection = await asyncpg.connect(
        address.url,
        password=address.password,
        timeout=connect_timeout,
        server_settings=SETTINGS,
        # The statements are a fixed set, of which a connection keeps the last hundred. Forgotten every five
        # minutes, as is the driver's way, each would take another round trip and another plan.
        max_cached_statement_lifetime=0,
    )
    try:
        await prepare(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def connect_once(address: DatabaseAddress, *, connect_timeout: float = 10.0) -> Single:
    """A connection of one's own, outside every pool; to be closed by the caller. LocalError says why not."""
    try:
        return await open_connection(address, connect_timeout=connect_timeout)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        explained = refusal(error, address)
        if explained is None:
            raise
        raise explained from error


async def prepare(connection: Single) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=orjson.dumps, decoder=orjson.loads, format="binary"
    )
    # The binary form of jsonb begins with a version, which has always been 1.
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + orjson.dumps(value),
        decoder=lambda data: orjson.loads(data[1:]),
        format="binary",
    )
