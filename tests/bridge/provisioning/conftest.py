"""Fixtures: nodes with people and agents."""

from collections.abc import AsyncIterator

import pytest

from tests.bridge.people.service.running_node import Servers, start_servers
from tests.support.postgres import Server


@pytest.fixture
async def servers(postgres_server: Server, migrated_template: str) -> AsyncIterator[Servers]:
    async with start_servers(postgres_server, migrated_template) as made:
        yield made
