"""The node's database: its own Postgres or a configured one, brought up to date and watched."""

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

# How often the database is asked whether it is there, and how long it may take over the answer.
INTERVAL = 1.0
TIMEOUT = 3.0
MOST_SHOWN = 10
# What the embedded Postgres reports, for a person; and what of it is a warning.
SENTENCES = {
    "postgres_initialised": "A new database was made.",
    "postgres_found": "A Postgres of an earlier start is still there.",
    "postgres_started": "Postgres is running.",
    "postgres_adopted": "The Postgres of an earlier start was taken over.",
    "postgres_lost": "Postgres ended by itself.",
    "postgres_restarting": "Postgres is about to be started again.",
    "postgres_failed": "Postgres could not be started again.",
    "postgres_stopped": "Postgres was stopped.",
    "postgres_log_truncated": "The log of Postgres was cut.",
}
BAD_NEWS = frozenset({"postgres_lost", "postgres_failed"})


class NodeDatabase:
    """`start()` once, `stop()` once; in between `pool`."""

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
                await claim(connection, self._config.server_name, self._config.guest_of)
            self._health.set("migrations", None)
        except BaseException:
            await self._stack.aclose()
            raise
        self._metrics.watch_pool(
            lambda: (self.pool.stats.size, self.pool.stats.idle, self.pool.stats.maximum)
        )
        self._background.supervise("watch on the database", self._watch)

    async def stop(self) -> None:
        await self._background.close()
        self._health.set("database", "It was stopped with the node.")
        await self._stack.aclose()

    def describe(self) -> dict[str, Any]:
        """For `palaver status`; nothing in it is secret."""
        return {
            "kind": "embedded" if self._config.database.url is None else "external",
            "server": self.pool.address.server,
            "schema_version": self.schema_version,
        }

    async def set_aside(self) -> list[dict[str, Any]]:
        """The newest events that could not be handled."""
        found = await self.pool.read(lambda connection: list_set_aside(connection, MOST_SHOWN))
        return [{**one._asdict(), "set_aside_at": one.set_aside_at.isoformat()} for one in found]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            wrong = await self._ask()
            if wrong != self._health.get("database"):
                self._health.set("database", wrong)
                if wrong is None:
                    log.info("The database answers again.")
                else:
                    log.warning("The database does not answer.", reason=wrong)

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT), self.pool.transaction(readonly=True) as connection:
                await fetch_server_name(connection)
        except TimeoutError:
            return "It does not answer."
        except (LocalError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return (
                error.problem
                if isinstance(error, LocalError)
                else f"It does not answer: {type(error).__name__}."
            )
        return None

    def _note(self, event: str, fields: dict[str, object]) -> None:
        write = log.warning if event in BAD_NEWS else log.info
        write(SENTENCES[event], **fields)
        if event == "postgres_lost":
            self._metrics.database_restarts.inc()
            self._health.set("database", "Postgres ended and is being started again.")


def _log_migration(done: int, total: int, name: str) -> None:
    log.info("Migrating the database.", done=done, total=total, migration=name)


@contextlib.asynccontextmanager
async def open_address(
    config: Config, note: Report = lambda event, fields: None
) -> AsyncIterator[DatabaseAddress]:
    """Where the database is, with the embedded Postgres running as long as the context lasts."""
    external = external_database(config)
    if external is not None:
        yield external
        return
    postgres = EmbeddedPostgres(
        config.data_dir,
        run_as=config.database.run_as,
        minimum_free_bytes=config.database.minimum_free_space,
        # The node's own pool, and room for whoever looks in with `palaver db shell` or `dump`.
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
    """A pool on the database."""
    async with open_address(config, note) as address:
        database = await Database.connect(address, minimum=2, maximum=config.database.connections)
        try:
            yield database
        finally:
            await close(database)


async def close(database: Database) -> None:
    """Everybody gets a moment to hand their connection back; a database that is gone delays nothing."""
    with contextlib.suppress(TimeoutError, ConnectionLost, OSError, asyncpg.PostgresError):
        async with asyncio.timeout(TIMEOUT):
            await database.close()
