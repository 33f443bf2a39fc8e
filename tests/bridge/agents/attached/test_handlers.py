"""The operations, independent of the transport."""

import asyncio
from pathlib import Path

import pytest

from bridge.agents.attached.handlers import call_operation
from bridge.agents.attached.messages import OPERATIONS_BY_NAME, HeartbeatResponse
from bridge.agents.attached.tokens import TokenOwner
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.bridge.agents.attached.api_running import SESSION, api

HOLDER = TokenOwner("worker", "token-1")


async def test_each_operation_returns_its_response_type(database: Database, tmp_path: Path) -> None:
    """The one that the OpenAPI document describes."""
    async with api(database, tmp_path) as one:
        await one.register()
        answer = await call_operation(one.services, HOLDER, OPERATIONS_BY_NAME["heartbeat"], {"session": SESSION})
        assert isinstance(answer, HeartbeatResponse)
        for name in ("register", "show", "set_status", "unregister"):
            operation = OPERATIONS_BY_NAME[name]
            body = {"session": SESSION, **({"status": "idle"} if name == "set_status" else {})}
            answered = await call_operation(
                one.services, HOLDER, operation, {} if operation.request_type is None else body
            )
            assert isinstance(answered, operation.response_type)


async def test_a_lost_database_connection_is_a_503(database: Database, tmp_path: Path) -> None:
    """The program repeats the call, and nothing is lost."""
    async with api(database, tmp_path) as one:
        await one.register()
        async with database.transaction() as connection:
            await connection.execute("LOCK TABLE agents")
            asking = asyncio.create_task(
                call_operation(one.services, HOLDER, OPERATIONS_BY_NAME["register"], {"session": SESSION})
            )
            # The connection to Postgres is lost while the operation waits for it.
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
