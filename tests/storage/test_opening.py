"""Opening connections."""

import asyncpg
import pytest

from storage.connect import DatabaseAddress, connect_once, open_connection
from storage.errors import LocalError


async def test_json_columns_have_python_values(database_address: DatabaseAddress) -> None:
    """Columns of both types, json and jsonb."""
    value = {"text": "ä\u2028", "number": 2**53, "list": [None, True, 1.5, {}], "": ""}
    connection = await connect_once(database_address)
    try:
        row = await connection.fetchrow("SELECT $1::json, $2::jsonb, $2::jsonb -> 'list' -> 1", value, value)
    finally:
        await connection.close()
    assert row is not None
    assert tuple(row) == (value, value, True)


async def test_all_connections_have_the_same_settings(database_address: DatabaseAddress) -> None:
    """Whatever the server sets for its roles: the time zone is UTC, and there is one schema."""
    connection = await open_connection(database_address, connect_timeout=10.0)
    try:
        shown = [await connection.fetchval(f"SHOW {name}") for name in ("timezone", "search_path", "application_name")]
    finally:
        await connection.close()
    assert shown == ["UTC", "public", "palaver"]


async def test_a_failure_to_connect_is_explained(database_address: DatabaseAddress) -> None:
    """By a LocalError; the pool, which retries, gets the error of the driver."""
    missing = database_address.with_database("there is none")
    with pytest.raises(LocalError, match="has no database called there is none"):
        await connect_once(missing)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await open_connection(missing, connect_timeout=10.0)
