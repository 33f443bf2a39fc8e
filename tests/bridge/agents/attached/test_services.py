"""Authentication and rates."""

from pathlib import Path

import pytest

from bridge.agents.attached.services import ApiLimits
from federation.matrix.errors import MatrixError
from federation.peers.limits import Rate
from storage.database import Database
from tests.bridge.agents.attached.api_running import api


async def test_each_agent_has_its_own_rate(database: Database, tmp_path: Path) -> None:
    """One that calls too often does not affect another."""
    async with api(database, tmp_path) as one:
        one.services.limits = ApiLimits(of_agent=Rate(0.001, 1))
        one.services.admit("worker")
        with pytest.raises(MatrixError, match="too many calls"):
            one.services.admit("worker")
        one.services.admit("other")


async def test_only_failed_authentication_is_counted(database: Database, tmp_path: Path) -> None:
    """Until there were too many failures from one address."""
    async with api(database, tmp_path) as one:
        one.services.limits = ApiLimits(failures=Rate(0.001, 1), shared_addresses=())
        for _ in range(3):
            assert (await one.ask("GET", "")).status == 404
        assert [(await one.ask("GET", "", headers={})).status for _ in range(2)] == [401, 429]
        # From here on requests from this address are refused without authentication.
        assert (await one.ask("GET", "")).status == 429
