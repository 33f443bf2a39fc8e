"""The node's database: migrated, claimed, monitored."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from bridge.config.config import Config
from bridge.node.database import MESSAGES, WARNINGS, NodeDatabase
from bridge.observability.health import Health
from bridge.observability.metrics import Metrics
from storage.connect import DatabaseAddress
from storage.database import connect_once
from storage.embedded import server
from storage.errors import LocalError
from tests.support.postgres import Server


def _database(
    address: DatabaseAddress, server_name: str = "localhost:7676", **more: Any
) -> tuple[NodeDatabase, Health]:
    config = Config.model_validate(
        {"server_name": server_name, "data_dir": Path("unused"), "database": {"url": address.url}, **more}
    )
    health = Health()
    return NodeDatabase(config, health, Metrics()), health


def test_every_postgres_event_has_a_message() -> None:
    """The events are those that the embedded Postgres documents."""
    assert set(MESSAGES) == set(re.findall(r"postgres_[a-z_]+", server.__doc__ or ""))
    assert set(MESSAGES) > WARNINGS


async def test_empty_database_is_migrated_and_claimed(empty_address: DatabaseAddress) -> None:
    """And the health checks pass."""
    database, health = _database(empty_address)
    await database.start()
    try:
        assert health.get("database") is None
        assert health.get("migrations") is None
        assert database.schema_version >= 1
        assert database.describe()["kind"] == "external"
    finally:
        await database.stop()
    assert health.get("database") is not None


async def test_database_of_another_node_is_refused(empty_address: DatabaseAddress) -> None:
    """And no connection remains open."""
    database, _ = _database(empty_address)
    await database.start()
    await database.stop()
    other, health = _database(empty_address, "kitchen.local")
    with pytest.raises(LocalError, match=r"kitchen\.local"):
        await other.start()
    assert health.get("migrations") is not None


async def test_database_of_another_backend_is_refused(empty_address: DatabaseAddress) -> None:
    """A homeserver's database cannot be used by an attached node."""
    database, _ = _database(empty_address)
    await database.start()
    await database.stop()
    section = {"homeserver": "http://127.0.0.1:8008", "domain": "their.server"}
    appservice, _ = _database(empty_address, matrix_side="appservice", appservice=section)
    with pytest.raises(LocalError, match=r"an application service of their\.server"):
        await appservice.start()


async def test_outage_and_recovery(empty_address: DatabaseAddress, postgres_server: Server) -> None:
    """While the database refuses connections, the node is not ready."""
    database, health = _database(empty_address)
    await database.start()
    changes: asyncio.Queue[str | None] = asyncio.Queue()
    before = health.set

    def told(check: str, sentence: str | None) -> None:
        before(check, sentence)
        changes.put_nowait(sentence)

    health.set = told  # type: ignore[method-assign] # only to be woken by it
    name = empty_address.database
    try:
        await postgres_server.admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await postgres_server.admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
        )
        assert await changes.get() is not None
        await postgres_server.admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert await changes.get() is None
    finally:
        await database.stop()
    connection = await connect_once(empty_address)
    await connection.close()
