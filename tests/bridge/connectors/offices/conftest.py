"""A node that is a homeserver."""

from collections.abc import AsyncIterator

import pytest

from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server


@pytest.fixture
async def node(postgres_server: Server, migrated_template: str) -> AsyncIterator[Node]:
    async with nodes(postgres_server, migrated_template) as running:
        [one] = await running.start("here.test")
        yield one
