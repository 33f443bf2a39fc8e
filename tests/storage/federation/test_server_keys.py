"""The keys of other servers."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from storage.database import Database
from storage.federation.server_keys import ServerKeyRow, fetch_documents, fetch_keys, lock_server, store_keys

ROW = ServerKeyRow("a.test", "ed25519:1", b"k" * 32, 2**53 - 1, None, 17, "direct")
OLD = replace(ROW, key_id="ed25519:old", expired_ts=5)
ELSEWHERE = replace(ROW, server_name="b.test")


async def test_stored_keys_are_found(database: Database) -> None:
    """Only those of the requested servers."""
    async with database.transaction() as connection:
        await store_keys(connection, [ROW, OLD], b"{1}")
        await store_keys(connection, [ELSEWHERE], b"{2}")
        await store_keys(connection, [], b"{3}")
        assert set(await fetch_keys(connection, ["a.test", "c.test"])) == {ROW, OLD}
        assert set(await fetch_keys(connection, ["a.test", "b.test"])) == {ROW, OLD, ELSEWHERE}
        assert await fetch_keys(connection, []) == []


async def test_a_key_replaces_the_one_with_its_id(database: Database) -> None:
    later = replace(ROW, valid_until_ts=7, expired_ts=6, fetched_at=18, source="n.test", public_key=b"x" * 32)
    async with database.transaction() as connection:
        await store_keys(connection, [ROW], b"{1}")
        await store_keys(connection, [later], b"{2}")
        assert await fetch_keys(connection, ["a.test"]) == [later]
        assert await fetch_documents(connection, "a.test", ["ed25519:1"]) == [b"{2}"]


async def test_a_document_is_returned_once(database: Database) -> None:
    """However many of the keys it has published."""
    async with database.transaction() as connection:
        await store_keys(connection, [ROW, OLD], b"{1}")
        assert await fetch_documents(connection, "a.test", ["ed25519:1", "ed25519:old", "x"]) == [b"{1}"]
        assert await fetch_documents(connection, "b.test", ["ed25519:1"]) == []


async def test_an_invalid_key_is_not_stored(database: Database) -> None:
    """An ed25519 key has 32 bytes."""
    with pytest.raises(asyncpg.CheckViolationError):
        async with database.transaction() as connection:
            await store_keys(connection, [replace(ROW, public_key=b"short")], b"{}")


async def test_merges_of_one_server_are_serialised(database: Database) -> None:
    """Those of different servers run at the same time."""
    order = []
    locked = asyncio.Event()

    async def second() -> None:
        async with database.transaction() as connection:
            await lock_server(connection, "b.test")
            locked.set()
            await lock_server(connection, "a.test")
            order.append("second")

    async with database.transaction() as connection:
        await lock_server(connection, "a.test")
        waiting = asyncio.create_task(second())
        await locked.wait()
        order.append("first")
    await waiting
    assert order == ["first", "second"]
