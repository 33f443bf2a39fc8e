"""A process of a node and the operator's commands for its agents and tasks."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.support.operated import Operated, operated


@pytest.fixture
async def node(database: Database) -> AsyncIterator[Operated]:
    async with operated(database, configured={"fixed"}) as one:
        yield one
