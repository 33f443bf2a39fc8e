"""Fixtures: the operations of ghosts on a fake homeserver."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.appservice.intakes import Appservice
from tests.appservice.local_users.fake_homeserver import Side, side_on
from tests.appservice.local_users.setup import Living, living_on


@pytest.fixture
async def living(database: Database, guest: Appservice) -> AsyncIterator[Living]:
    async with living_on(database, guest) as living:
        yield living


@pytest.fixture
async def played(database: Database, guest: Appservice) -> AsyncIterator[Side]:
    """With a homeserver that can create rooms."""
    async with side_on(database, guest) as side:
        yield side
