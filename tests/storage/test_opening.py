"""One connection, opened by itself or for the pool."""

import asyncpg
import pytest

from storage.connect import DatabaseAddress, connect_once, open_connection
from storage.errors import LocalError


async def test_json_is_what_it_was_in_python(database_address: DatabaseAddress) -> None:
    """Both kinds of column take and give plain values."""
    value = {"text": "ä\u2028", "number": 2**53, "list": [None, True, 1.5, {}], "": ""}
    connection = await connect_once(database_address)
    try:
        row = await connection.fetchrow("SELECT $1::json, $2::jsonb, $2::jsonb -> 'list' -> 1", value, value)
    finally:
        await connection.close()
    assert row is not None
    assert tuple(row) == (value, value, True)


async def test_a_connection_is_set_like_every_other(database_address: DatabaseAddress) -> None:
    """Whatever the server gives its roles: times are those of UTC, tables those of one schema."""
    connection = await open_connection(database_address, connect_timeout=10.0)
    try:
        shown = [
            await connection.fetchval(f"SHOW {name}")
            for name in ("timezone", "search_path", "application_name")
        ]
    finally:
        await connection.close()
    assert shown == ["UTC", "public", "palaver"]


async def test_who_opens_one_is_told_why_there_is_none(database_address: DatabaseAddress) -> None:
    """By a sentence for a person; for the pool, which tries again, as the driver says it."""
    missing = database_address.with_database("there is none")
    with pytest.raises(LocalError, match="has no database called there is none"):
        await connect_once(missing)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await open_connection(missing, connect_timeout=10.0)
