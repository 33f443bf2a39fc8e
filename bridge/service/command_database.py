"""The database for one command: that of the running node, or started for as long as the command takes."""

import contextlib
from collections.abc import AsyncIterator

from bridge.config import Config
from bridge.service.data_directory import AlreadyRunning, DataDirectory
from bridge.service.node_database import open_address
from bridge.service.settings import external_database
from storage.address import DatabaseAddress
from storage.embedded import EmbeddedPostgres
from storage.errors import LocalError


@contextlib.asynccontextmanager
async def database_for_command(config: Config, *, alone: bool = False) -> AsyncIterator[DatabaseAddress]:
    """`alone`: only while no node runs on this data directory, because the command would pull the ground
    from under it."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            stack.enter_context(DataDirectory(config.data_dir))
        except AlreadyRunning:
            if alone:
                raise LocalError(
                    f"A node is running on {config.data_dir}, and this would change its database under it.",
                    "Stop it first, then run this again.",
                ) from None
            # The node keeps its Postgres running for us.
            yield external_database(config) or EmbeddedPostgres(config.data_dir).address
            return
        yield await stack.enter_async_context(open_address(config))
