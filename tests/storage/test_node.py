"""Which node a database belongs to."""

import asyncio

import pytest

from storage.database import Database
from storage.errors import LocalError
from storage.node import NodeOwner, claim, fetch_owner


async def test_the_first_node_gets_the_database_and_keeps_it(database: Database) -> None:
    """A fresh database is anybody's; afterwards its owner is let in again and again."""
    for _ in range(2):
        async with database.transaction() as connection:
            await claim(connection, "kitchen.local")


async def test_a_node_of_another_name_is_refused(database: Database) -> None:
    """Rule: a database refuses to serve a different server name, and says both."""
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
    with pytest.raises(LocalError) as refused:
        async with database.transaction() as connection:
            await claim(connection, "garden.local")
    assert refused.value.problem == (
        "This database belongs to the node kitchen.local, and this node is called garden.local."
    )
    assert "server_name" in refused.value.advice


async def test_a_guest_keeps_its_homeserver(database: Database) -> None:
    """Rule: one side cannot read what the other keeps, and rooms are those of one homeserver."""
    async with database.transaction() as connection:
        assert await fetch_owner(connection) is None
        await claim(connection, "kitchen.local", "their.server")
        await claim(connection, "kitchen.local", "their.server")
        assert await fetch_owner(connection) == NodeOwner("kitchen.local", "their.server")
        with pytest.raises(LocalError, match=r"a guest of their\.server, and .* a homeserver") as side:
            await claim(connection, "kitchen.local")
        with pytest.raises(LocalError, match=r"says other\.server") as homeserver:
            await claim(connection, "kitchen.local", "other.server")
    assert 'matrix_side back to "appservice"' in side.value.advice
    assert "appservice.domain back" in homeserver.value.advice


async def test_a_homeserver_does_not_become_a_guest(database: Database) -> None:
    """Rule: the side that a database has is named, and how to keep it."""
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
        with pytest.raises(LocalError, match=r"that of a homeserver, .* a guest of their\.server") as refused:
            await claim(connection, "kitchen.local", "their.server")
        with pytest.raises(LocalError, match="belongs to the node kitchen"):
            await claim(connection, "garden.local", "their.server")
    assert 'matrix_side back to "federation"' in refused.value.advice


async def test_of_two_that_claim_at_once_one_is_refused(database: Database) -> None:
    """The second claim waits for the first one's transaction and then sees its name."""
    async with database.transaction() as first:
        await claim(first, "kitchen.local")

        async def second() -> None:
            async with database.transaction() as connection:
                await claim(connection, "garden.local")

        attempt = asyncio.create_task(second())
        await blocked(database)
    with pytest.raises(LocalError, match=r"kitchen\.local"):
        await attempt


async def blocked(database: Database) -> None:
    """Returns once some session of this database waits for another one's transaction."""
    async with database.connection() as connection:
        while not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ):
            pass
