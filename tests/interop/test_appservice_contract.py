"""The application service backend of a real Synapse meets the same contract as the homeserver backend."""

from collections.abc import AsyncIterator

import pytest

from tests.connectors.appservice_setup import appservice_setup
from tests.connectors.contract import Contract
from tests.connectors.portal import Portal, portal_on
from tests.connectors.setup import BackendSetup
from tests.support.postgres import Server
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("appservice contract")]


@pytest.fixture(scope="module")
async def backend_setup(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BackendSetup]:
    directory = tmp_path_factory.mktemp("appservice")
    async with appservice_setup(postgres_server, migrated_template, authority, directory) as made:
        yield made


@pytest.fixture(scope="module")
async def portal(backend_setup: BackendSetup, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Portal]:
    async with portal_on(backend_setup, tmp_path_factory.mktemp("agents")) as made:
        yield made


class TestAppserviceBackend(Contract):
    """All behaviours of the contract."""
