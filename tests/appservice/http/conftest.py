"""A port that a homeserver speaks to."""

from collections.abc import AsyncIterator

import pytest

from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.guests import guest_on
from tests.appservice.http.guest import Port, port_of


@pytest.fixture
async def port(database: Database, database_address: DatabaseAddress) -> AsyncIterator[Port]:
    async with guest_on(database, database_address) as guest, port_of(guest) as port:
        yield port
