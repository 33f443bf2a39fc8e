"""Other servers on loopback."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from storage.database import Database
from tests.federation.media.repository import Repository, repository
from tests.support.loopback_server import Certificates
from tests.support.name_server import NameServer
from tests.support.neighbourhood import Neighbourhood


@pytest.fixture
async def neighbourhood(tmp_path: Path) -> AsyncIterator[Neighbourhood]:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer().running())
        yield Neighbourhood(names, Certificates(tmp_path), stack)


@pytest.fixture
def media_repository(database: Database, tmp_path: Path) -> Repository:
    return repository(database, tmp_path)
