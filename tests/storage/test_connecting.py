"""Explanations of connection errors: the problem and the advice, without a password."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest

from storage.connect import DatabaseAddress, check_version, explain_connection_error, is_connection_loss
from storage.database import Database, connect_once
from storage.embedded import EmbeddedPostgres
from storage.errors import LocalError
from tests.support.postgres import as_role

PASSWORD = "correct horse"  # of the role
WRONG = "s3cret-and-wrong"


@pytest.fixture
async def strict_server(data_directory: Path) -> AsyncIterator[DatabaseAddress]:
    """A server for three connections, which trusts its administrator and requires a password of all other
    roles."""
    rules = data_directory / "postgres" / "18" / "pg_hba.conf"
    rules.write_text("local all palaver trust\nlocal all unlisted reject\nlocal all all scram-sha-256\n")
    postgres = EmbeddedPostgres(
        data_directory,
        minimum_free_bytes=0,
        max_connections=4,
        settings={"superuser_reserved_connections": "1", "autovacuum_worker_slots": "1"},
    )
    await postgres.start()
    try:
        admin = await connect_once(postgres.address)
        try:
            await admin.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
            await admin.execute("CREATE DATABASE other")
            await admin.execute("REVOKE CONNECT ON DATABASE other FROM PUBLIC")
        finally:
            await admin.close()
        yield postgres.address
    finally:
        await postgres.stop()


async def refused(address: DatabaseAddress) -> LocalError:
    """The error, which is the same for a pool and for a single connection."""
    with pytest.raises(LocalError) as single:
        await connect_once(address, connect_timeout=5)
    with pytest.raises(LocalError) as pooled:
        await Database.connect(address, connect_timeout=5)
    assert str(single.value) == str(pooled.value)
    assert WRONG not in str(single.value)
    assert PASSWORD not in str(single.value)
    return single.value


async def test_refused_connections_are_explained(strict_server: DatabaseAddress) -> None:
    """Wrong password, role not permitted, missing database, no right to connect."""
    place = f"Postgres at {strict_server.server}"

    error = await refused(as_role(strict_server, "guest", WRONG))
    assert error.problem == f"{place} does not accept the password for the role guest."
    assert "database.password_file" in error.advice

    # A server with passwords does not reveal which roles exist.
    error = await refused(as_role(strict_server, "stranger", WRONG))
    assert error.problem == f"{place} does not accept the password for the role stranger."
    assert "check that the role exists" in error.advice

    error = await refused(as_role(strict_server, "unlisted", WRONG))
    assert error.problem == f"{place} does not let the role unlisted log in."
    assert "CREATE ROLE" in error.advice
    assert "pg_hba.conf" in error.advice

    error = await refused(as_role(strict_server.with_database("nowhere"), "guest", PASSWORD))
    assert error.problem == f"{place} has no database called nowhere."
    assert "CREATE DATABASE" in error.advice

    error = await refused(as_role(strict_server.with_database("other"), "guest", PASSWORD))
    assert error.problem == f"{place} does not let the role guest use other."
    assert "owner" in error.advice


async def test_a_missing_role_is_named_by_a_server_without_passwords(data_directory: Path) -> None:
    """A server that trusts local connections reports the missing role itself."""
    postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=0)
    await postgres.start()
    try:
        error = await refused(as_role(postgres.address, "stranger", WRONG))
    finally:
        await postgres.stop()
    assert error.problem == f"Postgres at {postgres.address.server} does not let the role stranger log in."
    assert 'role "stranger" does not exist' in error.advice


async def test_a_full_server_is_explained(strict_server: DatabaseAddress) -> None:
    """The advice names the settings of both sides."""
    guest = as_role(strict_server, "guest", PASSWORD)
    async with AsyncExitStack() as held:

        async def take_all() -> None:
            for _ in range(10):
                held.push_async_callback((await connect_once(guest)).close)

        with pytest.raises(LocalError) as full:
            await take_all()
    assert full.value.problem == f"Postgres at {strict_server.server} has no connection left for this node."
    assert "database.connections" in full.value.advice
    assert "max_connections" in full.value.advice


async def test_a_server_that_is_not_running() -> None:
    """A port without listener, and a socket that does not exist."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        error = await refused(DatabaseAddress.from_url(f"postgresql://me@127.0.0.1:{port}/x", WRONG))
        assert error.problem.startswith(f"Postgres at 127.0.0.1:{port} cannot be reached (")
        assert "embedded" in error.advice
    error = await refused(DatabaseAddress.at_socket(Path("/nowhere"), 5432, "me", "x"))
    assert error.problem.startswith("Postgres at /nowhere cannot be reached (")


async def test_a_host_name_that_does_not_exist() -> None:
    """`.invalid` never resolves."""
    error = await refused(DatabaseAddress.from_url("postgresql://me@nowhere.invalid/x", WRONG))
    assert error.problem.startswith("Postgres at nowhere.invalid cannot be reached (")


async def test_a_server_that_does_not_respond() -> None:
    """The wait is bounded, and the problem mentions it."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = DatabaseAddress.from_url(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/x")
        with pytest.raises(LocalError, match=r"it did not answer in time"):
            await connect_once(address, connect_timeout=0.1)


async def test_a_service_that_is_not_postgres() -> None:
    """It answers the startup message with other data, or not at all."""
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""):

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer) -> None:
            await reader.read(1)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            error = await refused(DatabaseAddress.from_url(f"postgresql://me@127.0.0.1:{port}/x"))
            assert error.problem.startswith(f"Postgres at 127.0.0.1:{port} cannot be reached (")
        finally:
            server.close()
            await server.wait_closed()


async def test_an_option_that_does_not_exist() -> None:
    """The explanation contains the message of the driver."""
    error = await refused(DatabaseAddress.from_url("postgresql://me@127.0.0.1/x?sslmode=sometimes", WRONG))
    assert error.problem == "database.url has a setting that cannot be used."
    assert "sslmode" in error.advice


ADDRESS = DatabaseAddress.from_url("postgresql://db/x")


@pytest.mark.parametrize("major", [9, 14, 19])
def test_an_unsupported_version_is_refused(major: int) -> None:
    """The problem names the version and the supported versions."""
    with pytest.raises(LocalError) as unsupported:
        check_version(major, 3, ADDRESS)
    assert unsupported.value.problem == f"Postgres at db is version {major}.3, and Palaver supports 15 to 18."
    assert "embedded" in unsupported.value.advice


@pytest.mark.parametrize("major", [15, 16, 17, 18])
def test_supported_versions(major: int) -> None:
    """All major versions that the Postgres project maintains for more than another year."""
    check_version(major, 0, ADDRESS)


def test_a_starting_server_is_explained() -> None:
    """It is distinguished from a server that is not running."""
    explained = explain_connection_error(asyncpg.CannotConnectNowError("the database system is starting up"), ADDRESS)
    assert explained is not None
    assert explained.problem == "Postgres at db is starting or stopping and accepts no connections."


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (asyncpg.ConnectionDoesNotExistError("closed in the middle of operation"), True),
        (asyncpg.AdminShutdownError("terminating connection"), True),
        (asyncpg.CrashShutdownError("terminating connection"), True),
        (asyncpg.CannotConnectNowError("starting up"), True),
        (ConnectionResetError(), True),
        (asyncpg.SerializationError("could not serialize"), False),
        (asyncpg.UniqueViolationError("duplicate key"), False),
        (asyncpg.InterfaceError("wrong use"), False),
        (FileNotFoundError(), False),
        (ValueError(), False),
    ],
)
def test_connection_losses_are_recognised(error: Exception, lost: bool) -> None:
    """Only after a loss is it useful to retry the same work."""
    assert is_connection_loss(error) is lost


def test_other_errors_are_not_explained() -> None:
    assert explain_connection_error(ValueError("bug"), ADDRESS) is None
