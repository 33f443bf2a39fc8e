"""The operations, however they are called."""

import asyncio
from pathlib import Path

import pytest

from bridge.agent_api.messages import Alive
from bridge.agent_api.operations import BY_NAME
from bridge.service.agent_api.doing import do
from bridge.service.agents.tokens import Holder
from federation.errors import MatrixError
from storage.database import Database
from tests.bridge.service.agent_api.running import SESSION, api

HOLDER = Holder("worker", "token-1")


async def test_what_is_done_is_answered_in_its_form(database: Database, tmp_path: Path) -> None:
    """Which is the one that the operation is described with."""
    async with api(database, tmp_path) as one:
        await one.register()
        answer = await do(one.services, HOLDER, BY_NAME["heartbeat"], {"session": SESSION})
        assert isinstance(answer, Alive)
        for name in ("register", "show", "set_status", "unregister"):
            operation = BY_NAME[name]
            body = {"session": SESSION, **({"status": "idle"} if name == "set_status" else {})}
            answered = await do(one.services, HOLDER, operation, {} if operation.takes is None else body)
            assert isinstance(answered, operation.gives)


async def test_a_database_that_is_away_is_no_fault_of_the_program(database: Database, tmp_path: Path) -> None:
    """503: it asks again, and nothing is lost."""
    async with api(database, tmp_path) as one:
        await one.register()
        async with database.transaction() as connection:
            await connection.execute("LOCK TABLE agents")
            asking = asyncio.create_task(do(one.services, HOLDER, BY_NAME["register"], {"session": SESSION}))
            # Postgres goes away while the operation waits for it.
            while not asking.done():
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                await asyncio.sleep(0.01)
            with pytest.raises(MatrixError) as refused:
                await asking
            assert refused.value.status == 503
        await one.register()
