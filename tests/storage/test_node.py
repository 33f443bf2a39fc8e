"""Which node a database belongs to."""

import asyncio

import pytest

from storage.database import Database
from storage.errors import LocalError
from storage.node import NodeOwner, claim, fetch_owner


async def test_the_first_node_claims_the_database_permanently(database: Database) -> None:
    """A new database belongs to the first node that claims it; the same node may claim it again."""
    for _ in range(2):
        async with database.transaction() as connection:
            await claim(connection, "kitchen.local")


async def test_a_node_of_another_name_is_refused(database: Database) -> None:
    """A claim under another server name fails, and the error names both."""
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
    with pytest.raises(LocalError) as refused:
        async with database.transaction() as connection:
            await claim(connection, "garden.local")
    assert refused.value.problem == (
        "This database belongs to the node kitchen.local, but this node's server_name is garden.local."
    )
    assert "server_name" in refused.value.advice


async def test_an_appservice_keeps_its_homeserver(database: Database) -> None:
    """A claim with another Matrix backend or another homeserver fails."""
    async with database.transaction() as connection:
        assert await fetch_owner(connection) is None
        await claim(connection, "kitchen.local", "their.server")
        await claim(connection, "kitchen.local", "their.server")
        assert await fetch_owner(connection) == NodeOwner("kitchen.local", "their.server")
        with pytest.raises(LocalError, match=r"service of their\.server, but .* a homeserver") as backend:
            await claim(connection, "kitchen.local")
        with pytest.raises(LocalError, match=r"is other\.server") as homeserver:
            await claim(connection, "kitchen.local", "other.server")
    assert 'matrix_side back to "appservice"' in backend.value.advice
    assert "appservice.domain back" in homeserver.value.advice


async def test_a_homeserver_does_not_become_an_appservice(database: Database) -> None:
    """The error names the Matrix backend of the database, and the setting that keeps it."""
    async with database.transaction() as connection:
        await claim(connection, "kitchen.local")
        with pytest.raises(LocalError, match=r"a homeserver, but .* service of their\.server") as refused:
            await claim(connection, "kitchen.local", "their.server")
        with pytest.raises(LocalError, match="belongs to the node kitchen"):
            await claim(connection, "garden.local", "their.server")
    assert 'matrix_side back to "federation"' in refused.value.advice


async def test_of_two_concurrent_claims_the_second_is_refused(database: Database) -> None:
    """The second claim waits for the transaction of the first, and then fails."""
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
    """Wait until a session of this database waits for a lock."""
    async with database.connection() as connection:
        while not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ):
            pass
