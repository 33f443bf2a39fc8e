"""The contract of a node that is a homeserver."""

from collections.abc import AsyncIterator

import pytest

from tests.connectors.contract import Contract
from tests.connectors.homeserver_setup import homeserver_setup
from tests.connectors.portal import Portal, portal_on
from tests.connectors.setup import BackendSetup
from tests.support.postgres import Server


@pytest.fixture(scope="module")
async def backend_setup(postgres_server: Server, migrated_template: str) -> AsyncIterator[BackendSetup]:
    async with homeserver_setup(postgres_server, migrated_template) as made:
        yield made


@pytest.fixture(scope="module")
async def portal(backend_setup: BackendSetup, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Portal]:
    async with portal_on(backend_setup, tmp_path_factory.mktemp("agents")) as made:
        yield made


class TestFederationSide(Contract):
    """Every behaviour."""
