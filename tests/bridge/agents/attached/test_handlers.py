"""The operations, however they are called."""

import asyncio
from pathlib import Path

import pytest

from bridge.agents.attached.handlers import do
from bridge.agents.attached.messages import BY_NAME, Alive
from bridge.agents.attached.tokens import Holder
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.bridge.agents.attached.api_running import SESSION, api

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
                # Within a transaction Postgres would show the same activity again.
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                await asyncio.sleep(0.01)
            with pytest.raises(MatrixError) as refused:
                await asking
            assert refused.value.status == 503
        await one.register()
