"""Fixtures: the homeserver's port."""

from collections.abc import AsyncIterator

import pytest

from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.http.port import Port, port_of
from tests.appservice.intakes import intake_on


@pytest.fixture
async def port(database: Database, database_address: DatabaseAddress) -> AsyncIterator[Port]:
    async with intake_on(database, database_address) as harness, port_of(harness) as port:
        yield port
