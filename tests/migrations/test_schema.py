"""The schema file equals the sum of the migrations."""

import asyncio
from importlib.resources import files

from storage.backup import client_environment
from storage.connect import DatabaseAddress
from storage.database import connect_once
from storage.embedded.launch import pg_dump


async def test_schema_sql_is_the_sum_of_the_migrations(
    empty_address: DatabaseAddress, database_address: DatabaseAddress
) -> None:
    """A database made from schema.sql and one made by the migrations have the same dump."""
    connection = await connect_once(empty_address)
    try:
        await connection.execute(files("migrations").joinpath("schema.sql").read_text())
    finally:
        await connection.close()
    by_hand, by_migrations = await asyncio.gather(schema_of(empty_address), schema_of(database_address))
    assert "CREATE TABLE public.node" in by_hand
    assert by_hand == by_migrations


async def schema_of(address: DatabaseAddress) -> str:
    process = await asyncio.create_subprocess_exec(
        pg_dump(),
        "--schema-only",
        "--no-owner",
        # Otherwise random, and part of the output.
        "--restrict-key=same",
        f"--dbname={address.url}",
        env=client_environment(address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()
