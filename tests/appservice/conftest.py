"""Fixtures: an intake on a real database."""

from collections.abc import AsyncIterator

import pytest

from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.intakes import Appservice, guest_on


@pytest.fixture
async def guest(database: Database, database_address: DatabaseAddress) -> AsyncIterator[Appservice]:
    async with guest_on(database, database_address) as guest:
        yield guest
