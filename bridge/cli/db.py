"""`palaver db`: open, dump and restore the database. `palaver migrate`: migrate its schema."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.output import ConfigFile, Json, Output, loaded
from bridge.config.config import Config
from bridge.config.settings import external_database
from bridge.node.data_directory import AlreadyRunning, DataDirectory
from bridge.node.database import open_address
from storage.backup import dump as dump_database
from storage.backup import psql_command
from storage.backup import restore as restore_database
from storage.connect import DatabaseAddress
from storage.database import Database
from storage.embedded import EmbeddedPostgres
from storage.errors import LocalError
from storage.migrate import migrate as migrate_database


@contextlib.asynccontextmanager
async def database_for_command(config: Config, *, alone: bool = False) -> AsyncIterator[DatabaseAddress]:
    """Yield the address of the database, and start the embedded Postgres for that time if no node runs it.

    With `alone`, raise `LocalError` if a node is running on the data directory: for commands that replace
    data.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            stack.enter_context(DataDirectory(config.data_dir))
        except AlreadyRunning:
            if alone:
                raise LocalError(
                    f"A node is running on {config.data_dir}, and this command would replace its database.",
                    "Stop the node, then run this command again.",
                ) from None
            # The running node has started the embedded Postgres.
            yield external_database(config) or EmbeddedPostgres(config.data_dir).address
            return
        yield await stack.enter_async_context(open_address(config))


app = typer.Typer(help="Open, dump and restore the database.", no_args_is_help=True)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def shell(context: typer.Context, path: ConfigFile = None, as_json: Json = False) -> None:
    """Open psql on the database. Arguments after -- are passed to psql.

    Example: palaver db shell -- -c 'SELECT 1'"""
    if as_json:
        raise LocalError("psql has no JSON output.", "Remove --json; psql has --csv for programs.")
    code = asyncio.run(_shell(loaded(path).config, context.args))
    raise typer.Exit(code)


async def _shell(config: Config, words: list[str]) -> int:
    async with database_for_command(config) as address:
        command, environment = psql_command(address)
        # Ctrl-C in psql cancels its query; this process must not exit.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = await asyncio.create_subprocess_exec(*command, *words, env=environment)
            return await process.wait()
        finally:
            signal.signal(signal.SIGINT, before)


@app.command()
def dump(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    path: ConfigFile = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Dump the complete database to a file. The node may be running.

    Example: palaver db dump backup.dump"""
    output = Output(as_json=as_json)
    if file.exists() and not force:
        raise LocalError(f"The file {file} already exists.", "Name another file, or use --force.")
    asyncio.run(_dump(loaded(path).config, file, output))
    output.show(
        {"file": str(file), "bytes": file.stat().st_size},
        lambda console: console.print(
            f"Wrote {file}. It does not contain the signing key: back that up too.", markup=False
        ),
    )


async def _dump(config: Config, file: Path, output: Output) -> None:
    async with database_for_command(config) as address:
        with output.progress("Dumping") as progress:
            await dump_database(address, file, progress=progress)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `palaver db dump` wrote.")],
    path: ConfigFile = None,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the current content of the database.")] = False,
    as_json: Json = False,
) -> None:
    """Restore the database from a dump, in one transaction. The node must be stopped.

    Example: palaver db restore backup.dump --replace"""
    output = Output(as_json=as_json)
    asyncio.run(_restore(loaded(path).config, file, output, replace=replace))
    output.show(
        {"restored": str(file)}, lambda console: console.print(f"Restored the database from {file}.", markup=False)
    )


async def _restore(config: Config, file: Path, output: Output, *, replace: bool) -> None:
    async with database_for_command(config, alone=True) as address:
        with output.progress("Restoring") as progress:
            await restore_database(address, file, replace=replace, progress=progress)


def migrate(path: ConfigFile = None, as_json: Json = False) -> None:
    """Migrate the database to the newest schema version. `palaver run` does this at its start.

    Example: palaver migrate"""
    output = Output(as_json=as_json)
    version = asyncio.run(_migrate(loaded(path).config, output))
    output.show(
        {"schema_version": version},
        lambda console: console.print(f"The database has the newest schema version, {version}."),
    )


async def _migrate(config: Config, output: Output) -> int:
    async with database_for_command(config) as address:
        database = await Database.connect(address, minimum=1, maximum=2)
        try:
            with output.progress("Migrating") as progress:
                return await migrate_database(database, progress=progress)
        finally:
            await database.close()
