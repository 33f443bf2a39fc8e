"""Fixtures: the homeserver's port."""

from collections.abc import AsyncIterator

import pytest

from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.http.port import Port, port_of
from tests.appservice.intakes import guest_on


@pytest.fixture
async def port(database: Database, database_address: DatabaseAddress) -> AsyncIterator[Port]:
    async with guest_on(database, database_address) as guest, port_of(guest) as port:
        yield port
