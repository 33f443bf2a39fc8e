from collections.abc import AsyncIterator

import pytest_asyncio

from bench._harness.database import Database, database


@pytest_asyncio.fixture(scope="session")
async def served() -> AsyncIterator[Database]:
    """One Postgres for the tests of every module that needs it, set up as it is for a run."""
    async with database() as found:
        yield found
