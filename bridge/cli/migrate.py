"""`palaver migrate`: bring the database's schema up to date."""

import asyncio

from bridge.cli.options import ConfigFile, Json, loaded
from bridge.cli.output import Output
from bridge.config import Config
from bridge.service.command_database import database_for_command
from storage.database import Database
from storage.migrate import migrate as migrate_database


def migrate(path: ConfigFile = None, as_json: Json = False) -> None:
    """Bring the database's schema up to date. `palaver run` does it by itself."""
    output = Output(as_json=as_json)
    version = asyncio.run(_migrate(loaded(path).config, output))
    output.show(
        {"schema_version": version},
        lambda console: console.print(f"The database has schema version {version}, the newest."),
    )


async def _migrate(config: Config, output: Output) -> int:
    async with database_for_command(config) as address:
        database = await Database.connect(address, minimum=1, maximum=2)
        try:
            with output.progress("Migrating") as progress:
                return await migrate_database(database, progress=progress)
        finally:
            await database.close()
