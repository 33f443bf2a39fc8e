"""Fixtures: the operations of ghosts on a fake homeserver."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.appservice.intakes import IntakeHarness
from tests.appservice.local_users.fake_homeserver import Side, side_on
from tests.appservice.local_users.setup import AttachedNode, living_on


@pytest.fixture
async def attached(database: Database, harness: IntakeHarness) -> AsyncIterator[AttachedNode]:
    async with living_on(database, harness) as attached:
        yield attached


@pytest.fixture
async def node_with_rooms(database: Database, harness: IntakeHarness) -> AsyncIterator[Side]:
    """With a homeserver that can create rooms."""
    async with side_on(database, harness) as side:
        yield side
