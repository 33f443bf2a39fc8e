"""Other servers on loopback."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.loopback_server import Certificates
from tests.support.name_server import NameServer
from tests.support.neighbourhood import Neighbourhood


@pytest.fixture
async def neighbourhood(tmp_path: Path) -> AsyncIterator[Neighbourhood]:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer().running())
        yield Neighbourhood(names, Certificates(tmp_path), stack)
