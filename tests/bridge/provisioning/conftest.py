"""Fixtures: nodes with people and agents."""

from collections.abc import AsyncIterator

import pytest

from tests.bridge.people.service.scene import Stage, stage
from tests.support.postgres import Server


@pytest.fixture
async def play(postgres_server: Server, migrated_template: str) -> AsyncIterator[Stage]:
    async with stage(postgres_server, migrated_template) as made:
        yield made
