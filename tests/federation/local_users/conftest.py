"""Homeservers on which users live."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.federation.local_users.homes import Home, homes, inhabited
from tests.support.postgres import Server


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    """One alone, without a port."""
    async with inhabited("here.test", database) as made:
        yield made


@pytest.fixture
async def pair(postgres_server: Server, migrated_template: str) -> AsyncIterator[tuple[Home, Home]]:
    async with homes(postgres_server, migrated_template) as running:
        here, there = await running.start("here.test", "there.test")
        yield here, there
