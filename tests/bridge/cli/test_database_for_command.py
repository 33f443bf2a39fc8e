"""The database of a command that needs it."""

from pathlib import Path

import pytest

from bridge.cli.db import database_for_command
from bridge.config.config import Config
from bridge.node.data_directory import AlreadyRunning, DataDirectory
from storage.database import connect_once
from storage.errors import LocalError


async def test_without_a_node_the_command_starts_the_database(tmp_path: Path) -> None:
    """It also locks the data directory, so no node can start meanwhile."""
    config = Config(data_dir=tmp_path)
    async with database_for_command(config) as address:
        connection = await connect_once(address)
        await connection.close()
        with pytest.raises(AlreadyRunning):
            DataDirectory(tmp_path).__enter__()
    with DataDirectory(tmp_path):
        pass
    assert not (tmp_path / "postgres" / "18" / "postmaster.pid").exists()


async def test_with_a_running_node_its_database_is_used(tmp_path: Path) -> None:
    """No Postgres is started, and a command that needs the database alone is refused."""
    config = Config(data_dir=tmp_path)
    with DataDirectory(tmp_path):
        async with database_for_command(config) as address:
            assert str(tmp_path) in address.server
        with pytest.raises(LocalError, match="would replace its database"):
            async with database_for_command(config, alone=True):
                pass
    assert not (tmp_path / "postgres").exists()
