"""Database addresses, and their form without password."""

from pathlib import Path

import asyncpg
import pytest

from storage.connect import DatabaseAddress
from storage.database import connect_once
from storage.errors import LocalError
from tests.support.postgres import Server


def test_the_address_of_the_embedded_server_is_its_socket() -> None:
    """A URL that asyncpg and libpq parse alike, whatever characters the path contains."""
    address = DatabaseAddress.at_socket(Path("/srv/a b+c%20ä"), 5432, "palaver", "palaver")
    assert address.url == ("postgresql://palaver@/palaver?host=%2Fsrv%2Fa%20b%2Bc%2520%C3%A4&port=5432")
    assert (address.server, address.user, address.database) == ("/srv/a b+c%20ä", "palaver", "palaver")


@pytest.mark.parametrize(
    ("url", "shown", "password"),
    [
        ("postgresql://me:s3cret@db:5432/x", "postgresql://me@db:5432/x", "s3cret"),
        ("postgres://me:a%2Fb%40@db/x?sslmode=require", "postgres://me@db/x?sslmode=require", "a/b@"),
        ("postgresql://me@db/x?password=s3cret&sslmode=disable", "postgresql://me@db/x?sslmode=disable", "s3cret"),
        ("postgresql://me@[::1]:5432/x", "postgresql://me@[::1]:5432/x", None),
        ("postgresql://me@a:1,b:2/x", "postgresql://me@a:1,b:2/x", None),
        ("postgresql:///x?host=/run/postgresql", "postgresql:///x?host=%2Frun%2Fpostgresql", None),
        (" postgresql://db/x\n", "postgresql://db/x", None),
    ],
)
def test_a_password_is_removed_from_the_url(url: str, shown: str, password: str | None) -> None:
    """The URL is shown and used on command lines, so it must not contain a password, wherever it was
    written."""
    address = DatabaseAddress.from_url(url)
    assert (address.url, address.password) == (shown, password)
    assert "s3cret" not in repr(address)


def test_a_password_file_overrides_the_url() -> None:
    assert DatabaseAddress.from_url("postgresql://me:old@db/x", "new").password == "new"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@db/x",
        "host=db password=s3cret",
        "postgresql://",
        "postgresql://me:s3cret@db:port/x",
        "postgresql://me:s3cret@[::1/x",
        "",
    ],
)
def test_an_invalid_url_is_refused_without_being_repeated(url: str) -> None:
    """It may contain a password that made it invalid."""
    with pytest.raises(LocalError) as refused:
        DatabaseAddress.from_url(url)
    assert refused.value.problem == "database.url is not a Postgres URL."
    assert "postgresql://USER@HOST" in refused.value.advice
    assert "s3cret" not in str(refused.value)


def test_a_passphrase_in_the_url_is_refused() -> None:
    """The URL is shown to people."""
    with pytest.raises(LocalError) as refused:
        DatabaseAddress.from_url("postgresql://me@db/x?sslpassword=s3cret")
    assert refused.value.problem == (
        "database.url contains the passphrase of a TLS key (sslpassword); a URL must hold no secret."
    )
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "user", "database", "server"),
    [
        ("postgresql://m%40e@db:5432/my%20db", "m@e", "my db", "db:5432"),
        ("postgresql://db", "", "", "db"),
        ("postgresql://me@db", "me", "me", "db"),
        ("postgresql:///?host=/run&user=me&dbname=x", "me", "x", "/run"),
    ],
)
def test_the_parts_of_an_address(url: str, user: str, database: str, server: str) -> None:
    """Error messages name the server, the role and the database."""
    address = DatabaseAddress.from_url(url)
    assert (address.user, address.database, address.server) == (user, database, server)


def test_another_database_of_the_same_server() -> None:
    """Everything else stays the same, including the password."""
    address = DatabaseAddress.from_url("postgresql://me:s3cret@db/x?dbname=y&sslmode=require")
    other = address.with_database("a b")
    assert other.url == "postgresql://me@db/a%20b?sslmode=require"
    assert other.password == "s3cret"
    assert other.database == "a b"


async def test_asyncpg_parses_the_url(postgres_server: Server, empty_address: DatabaseAddress) -> None:
    """A database whose name must be quoted can be connected to."""
    await postgres_server.admin.execute(f'CREATE DATABASE "a b+ü%20{empty_address.database}"')
    try:
        address = empty_address.with_database(f"a b+ü%20{empty_address.database}")
        connection = await connect_once(address)
        try:
            assert await connection.fetchval("SELECT current_database()") == address.database
        finally:
            await connection.close()
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await asyncpg.connect(empty_address.with_database("a b").url, password=empty_address.password)
    finally:
        await postgres_server.admin.execute(f'DROP DATABASE "a b+ü%20{empty_address.database}"')
