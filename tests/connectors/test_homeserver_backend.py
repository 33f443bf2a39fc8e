"""The contract of a node that is a homeserver."""

from collections.abc import AsyncIterator

import pytest

from tests.connectors.contract import Contract
from tests.connectors.homeserver_setup import federation_ground
from tests.connectors.portal import Portal, portal_on
from tests.connectors.setup import Ground
from tests.support.postgres import Server


@pytest.fixture(scope="module")
async def ground(postgres_server: Server, migrated_template: str) -> AsyncIterator[Ground]:
    async with federation_ground(postgres_server, migrated_template) as made:
        yield made


@pytest.fixture(scope="module")
async def portal(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Portal]:
    async with portal_on(ground, tmp_path_factory.mktemp("agents")) as made:
        yield made


class TestFederationSide(Contract):
    """Every behaviour."""
