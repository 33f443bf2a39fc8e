"""Nodes that exchange agents, for all tests of this package."""

from collections.abc import AsyncIterator

import pytest

from tests.bridge.connectors.cis.cis_nodes import CisNodes, cis_nodes
from tests.support.postgres import Server


@pytest.fixture
async def nodes(postgres_server: Server, migrated_template: str) -> AsyncIterator[CisNodes]:
    async with cis_nodes(postgres_server, migrated_template) as nodes:
        yield nodes
