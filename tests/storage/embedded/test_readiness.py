"""Waiting until Postgres accepts connections."""

from pathlib import Path

from storage.connect import DatabaseAddress
from storage.database import connect_once
from storage.embedded.server import wait_until_accepting
from tests.storage.embedded.nodes import started
from tests.storage.embedded.test_adoption import left_behind


async def test_a_missing_database_is_created(data_directory: Path) -> None:
    """A node may have been killed between creating the cluster and the database."""
    async with started(data_directory) as (postgres, _):
        admin = await connect_once(postgres.address.with_database("postgres"))
        try:
            await admin.execute("DROP DATABASE palaver WITH (FORCE)")
        finally:
            await admin.close()
        await postgres.stop()
        await postgres.start()
        connection = await connect_once(postgres.address)
        try:
            assert await connection.fetchval("SELECT current_database()") == "palaver"
        finally:
            await connection.close()


async def test_waiting_ends_with_the_process(data_directory: Path) -> None:
    """Whatever the timeout is."""
    async with left_behind(data_directory) as process:
        address = DatabaseAddress.at_socket(data_directory / "postgres", 5432, "palaver", "palaver")
        assert await wait_until_accepting(address, process, within=600)
        process.kill_all()
        await process.ended()
        assert not await wait_until_accepting(address, process, within=600)


async def test_a_full_server_is_ready(data_directory: Path) -> None:
    """It serves other connections, which must not be cut off."""
    async with started(
        data_directory,
        max_connections=4,
        settings={"superuser_reserved_connections": "0", "autovacuum_worker_slots": "1"},
    ) as (postgres, _):
        held = [await connect_once(postgres.address) for _ in range(4)]
        try:
            assert postgres._process is not None
            assert await wait_until_accepting(postgres.address, postgres._process, within=60)
        finally:
            for connection in held:
                await connection.close()
