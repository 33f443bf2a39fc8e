"""A guest that lives on a homeserver."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.appservice.service.guests import Guest
from tests.appservice.service.living.guests import Living, living_on


@pytest.fixture
async def living(database: Database, guest: Guest) -> AsyncIterator[Living]:
    async with living_on(database, guest) as living:
        yield living
