"""Fixtures: an intake on a real database."""

from collections.abc import AsyncIterator

import pytest

from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.intakes import IntakeHarness, intake_on


@pytest.fixture
async def harness(database: Database, database_address: DatabaseAddress) -> AsyncIterator[IntakeHarness]:
    async with intake_on(database, database_address) as harness:
        yield harness
