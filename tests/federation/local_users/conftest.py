"""Homeservers with local users."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.federation.local_users.homes import Home, homes, homeserver_without_port
from tests.support.postgres import Server


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    """One homeserver without a port."""
    async with homeserver_without_port("here.test", database) as made:
        yield made


@pytest.fixture
async def pair(postgres_server: Server, migrated_template: str) -> AsyncIterator[tuple[Home, Home]]:
    async with homes(postgres_server, migrated_template) as running:
        here, there = await running.start("here.test", "there.test")
        yield here, there
