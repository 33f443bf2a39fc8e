"""The node's database: embedded or external Postgres, migrated and monitored."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import structlog

from bridge.config.config import Config
from bridge.config.settings import external_database
from bridge.observability.health import Health
from bridge.observability.metrics import Metrics
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost, DatabaseAddress
from storage.database import Database
from storage.embedded import EmbeddedPostgres, Report
from storage.errors import LocalError
from storage.inbox import list_set_aside
from storage.migrate import migrate
from storage.node import claim, fetch_server_name

log = structlog.get_logger("palaver.database")

# How often the database is checked, and the timeout of a check.
INTERVAL = 1.0
TIMEOUT = 3.0
MAX_SHOWN = 10
# Log messages for the events of the embedded Postgres, and which of them are warnings.
MESSAGES = {
    "postgres_initialised": "Created a new database.",
    "postgres_found": "Found a running Postgres of an earlier start.",
    "postgres_started": "Postgres is running.",
    "postgres_adopted": "Adopted the Postgres of an earlier start.",
    "postgres_lost": "Postgres exited unexpectedly.",
    "postgres_restarting": "Restarting Postgres.",
    "postgres_failed": "Failed to restart Postgres.",
    "postgres_stopped": "Stopped Postgres.",
    "postgres_log_truncated": "Truncated the log of Postgres.",
}
WARNINGS = frozenset({"postgres_lost", "postgres_failed"})


class NodeDatabase:
    """Call `start()` once and `stop()` once; `pool` is available in between."""

    def __init__(self, config: Config, health: Health, metrics: Metrics) -> None:
        self._config = config
        self._health = health
        self._metrics = metrics
        self._stack = contextlib.AsyncExitStack()
        self._background = BackgroundTasks()
        self.schema_version = 0

    async def start(self) -> None:
        try:
            self.pool = await self._stack.enter_async_context(open_database(self._config, self._note))
            self._health.set("database", None)
            self.schema_version = await migrate(self.pool, progress=_log_migration)
            async with self.pool.transaction() as connection:
                await claim(connection, self._config.server_name, self._config.attached_to)
            self._health.set("migrations", None)
        except BaseException:
            await self._stack.aclose()
            raise
        self._metrics.watch_pool(lambda: (self.pool.stats.size, self.pool.stats.idle, self.pool.stats.maximum))
        self._background.supervise("database availability", self._watch)

    async def stop(self) -> None:
        await self._background.close()
        self._health.set("database", "It was stopped with the node.")
        await self._stack.aclose()

    def describe(self) -> dict[str, Any]:
        """For `palaver status`; contains no secrets."""
        return {
            "kind": "embedded" if self._config.database.url is None else "external",
            "server": self.pool.address.server,
            "schema_version": self.schema_version,
        }

    async def set_aside(self) -> list[dict[str, Any]]:
        """The newest events that could not be handled."""
        found = await self.pool.read(lambda connection: list_set_aside(connection, MAX_SHOWN))
        return [{**one._asdict(), "set_aside_at": one.set_aside_at.isoformat()} for one in found]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            wrong = await self._check()
            if wrong != self._health.get("database"):
                self._health.set("database", wrong)
                if wrong is None:
                    log.info("The database responds again.")
                else:
                    log.warning("The database does not respond.", reason=wrong)

    async def _check(self) -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT), self.pool.transaction(readonly=True) as connection:
                await fetch_server_name(connection)
        except TimeoutError:
            return "It does not respond."
        except (LocalError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return error.problem if isinstance(error, LocalError) else f"It does not respond: {type(error).__name__}."
        return None

    def _note(self, event: str, fields: dict[str, object]) -> None:
        write = log.warning if event in WARNINGS else log.info
        write(MESSAGES[event], **fields)
        if event == "postgres_lost":
            self._metrics.database_restarts.inc()
            self._health.set("database", "Postgres exited and is being restarted.")


def _log_migration(done: int, total: int, name: str) -> None:
    log.info("Migrating the database.", done=done, total=total, migration=name)


@contextlib.asynccontextmanager
async def open_address(config: Config, note: Report = lambda event, fields: None) -> AsyncIterator[DatabaseAddress]:
    """The address of the database, with the embedded Postgres running while the context is open."""
    external = external_database(config)
    if external is not None:
        yield external
        return
    postgres = EmbeddedPostgres(
        config.data_dir,
        run_as=config.database.run_as,
        minimum_free_bytes=config.database.minimum_free_space,
        # The node's own pool, and spare connections for `palaver db shell` and `dump`.
        max_connections=config.database.connections + 20,
        report=note,
    )
    await postgres.start()
    try:
        yield postgres.address
    finally:
        await postgres.stop()


@contextlib.asynccontextmanager
async def open_database(config: Config, note: Report = lambda event, fields: None) -> AsyncIterator[Database]:
    """A connection pool."""
    async with open_address(config, note) as address:
        database = await Database.connect(address, minimum=2, maximum=config.database.connections)
        try:
            yield database
        finally:
            await close(database)


async def close(database: Database) -> None:
    """Wait briefly for connections to be returned; an unavailable database does not delay it."""
    with contextlib.suppress(TimeoutError, ConnectionLost, OSError, asyncpg.PostgresError):
        async with asyncio.timeout(TIMEOUT):
            await database.close()
