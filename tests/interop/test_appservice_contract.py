"""The application service backend of a real Synapse meets the same contract as the homeserver backend."""

from collections.abc import AsyncIterator

import pytest

from tests.connectors.appservice_setup import guest_ground
from tests.connectors.contract import Contract
from tests.connectors.portal import Portal, portal_on
from tests.connectors.setup import Ground
from tests.support.postgres import Server
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("appservice contract")]


@pytest.fixture(scope="module")
async def ground(
    postgres_server: Server,
    migrated_template: str,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Ground]:
    directory = tmp_path_factory.mktemp("guest")
    async with guest_ground(postgres_server, migrated_template, authority, directory) as made:
        yield made


@pytest.fixture(scope="module")
async def portal(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Portal]:
    async with portal_on(ground, tmp_path_factory.mktemp("agents")) as made:
        yield made


class TestAppserviceBackend(Contract):
    """All behaviours of the contract."""
