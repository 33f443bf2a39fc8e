"""Opens connections to Postgres, and explains connection errors.

`DatabaseAddress` is the address of the embedded Postgres or of an external one. The password is kept apart
from the URL and never shown. Every connection of a node has the same settings and reads JSON as Python
values.

After the loss of a connection, idempotent work may be retried. Every other connection error needs an operator
and is explained by a `LocalError`.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import asyncpg
import orjson

from storage.errors import LocalError

SCHEMES = {"postgresql", "postgres"}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """`url` contains no secret: it may be shown to people and appear on a command line."""

    url: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def at_socket(cls, directory: Path, port: int, user: str, database: str) -> Self:
        query = f"host={quote(str(directory), safe='')}&port={port}"
        return cls(f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?{query}")

    @classmethod
    def from_url(cls, url: str, password: str | None = None) -> Self:
        """Parse `database.url`. `password` comes from a file and overrides a password in the URL. Raises
        LocalError."""
        try:
            parts = urlsplit(url.strip())
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            _ = parts.port if "," not in parts.netloc else None
        except ValueError:
            raise malformed_url() from None
        names = {name for name, _ in query}
        if parts.scheme not in SCHEMES or not (parts.netloc or "host" in names):
            raise malformed_url()
        if "sslpassword" in names:
            raise LocalError(
                "database.url contains the passphrase of a TLS key (sslpassword); a URL must hold no secret.",
                "Remove sslpassword and use a key without a passphrase that only the node's user can read.",
            )
        user, at, hosts = parts.netloc.rpartition("@")
        user, _, written = user.partition(":")
        written = unquote(written) or dict(query).get("password", "")
        kept = urlencode([pair for pair in query if pair[0] != "password"], quote_via=quote)
        shown = urlunsplit((parts.scheme, user + at + hosts, parts.path, kept, ""))
        # urlunsplit leaves out the slashes of an empty host.
        shown = shown if "://" in shown else shown.replace(":", "://", 1)
        return cls(shown, password if password is not None else written or None)

    def with_database(self, name: str) -> Self:
        """The same server and user, another database."""
        parts = urlsplit(self.url)
        query = [pair for pair in parse_qsl(parts.query) if pair[0] not in {"dbname", "database"}]
        kept = urlencode(query, quote_via=quote)
        return replace(
            self, url=f"{parts.scheme}://{parts.netloc}/{quote(name, safe='')}" + (f"?{kept}" if kept else "")
        )

    @property
    def database(self) -> str:
        """The name of the database. Like Postgres, this falls back to the name of the user."""
        parts = urlsplit(self.url)
        query = dict(parse_qsl(parts.query))
        return query.get("dbname") or query.get("database") or unquote(parts.path.removeprefix("/")) or self.user

    @property
    def user(self) -> str:
        parts = urlsplit(self.url)
        return dict(parse_qsl(parts.query)).get("user") or unquote(parts.netloc.rpartition("@")[0])

    @property
    def server(self) -> str:
        """The server's name for messages to people."""
        parts = urlsplit(self.url)
        hosts = parts.netloc.rpartition("@")[2]
        return unquote(hosts) or dict(parse_qsl(parts.query)).get("host", "this machine")


def malformed_url() -> LocalError:
    # The URL is not repeated: an unescaped password in it may be what made it unreadable.
    return LocalError(
        "database.url is not a Postgres URL.",
        "Write it as postgresql://USER@HOST:5432/DATABASE and put the password into database.password_file.",
    )


OLDEST_SUPPORTED, NEWEST_SUPPORTED = 15, 18

CONNECTION_LOST_ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresConnectionError,  # class 08, and asyncpg's own "closed in the middle of operation"
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    ConnectionError,
)
BROKEN_CONNECTION_ERRORS = (*CONNECTION_LOST_ERRORS, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""All errors that asyncpg raises on a connection that is breaking. Between the server's termination message
and the end of the stream, asyncpg reports a use of the connection as InterfaceError or
InternalClientError."""


class ConnectionLost(LocalError):
    """The connection to the database was lost. Whether a commit that was in progress succeeded is unknown. A
    subclass is used for the homeserver to which a node is attached as an application service."""

    def __init__(self, address: DatabaseAddress) -> None:
        super().__init__(
            f"The connection to Postgres at {address.server} was lost.",
            "Palaver continues by itself once Postgres answers again; if it does not, check that server.",
        )


def is_connection_loss(error: BaseException) -> bool:
    """Whether idempotent work that failed with this error is worth retrying."""
    return isinstance(error, (ConnectionLost, *CONNECTION_LOST_ERRORS))


def explain_connection_error(error: BaseException, address: DatabaseAddress) -> LocalError | None:
    """The explanation for an operator, or None if the error is not about connecting.

    A server that asks for a password answers a role that does not exist like a wrong password, on purpose.
    """
    match error:
        case asyncpg.InvalidPasswordError():
            return LocalError(
                f"Postgres at {address.server} does not accept the password for {role(address)}.",
                "Put the right password into the file that database.password_file names, "
                "and check that the role exists.",
            )
        case asyncpg.InvalidAuthorizationSpecificationError():
            return LocalError(
                f"Postgres at {address.server} does not let {role(address)} log in.",
                f"Create that role there (CREATE ROLE … LOGIN), or allow it in the server's pg_hba.conf. "
                f"Postgres reports: {first_line(error)}",
            )
        case asyncpg.InvalidCatalogNameError():
            return LocalError(
                f"Postgres at {address.server} has no database called {address.database}.",
                f"Create it (CREATE DATABASE … OWNER …) for {role(address)}, or correct database.url.",
            )
        case asyncpg.InsufficientPrivilegeError():
            return LocalError(
                f"Postgres at {address.server} does not let {role(address)} use {address.database}.",
                "Make that role the owner of the database (ALTER DATABASE … OWNER TO …).",
            )
        case asyncpg.TooManyConnectionsError():
            return LocalError(
                f"Postgres at {address.server} has no connection left for this node.",
                "Lower database.connections here, or raise max_connections there.",
            )
        case asyncpg.CannotConnectNowError():
            return LocalError(
                f"Postgres at {address.server} is starting or stopping and accepts no connections.",
                "Wait until it is ready and start the node again.",
            )
        case asyncpg.ClientConfigurationError():
            return LocalError(
                "database.url has a setting that cannot be used.",
                f"Correct it. The driver reports: {first_line(error)}",
            )
        case OSError() | asyncpg.PostgresConnectionError():
            return LocalError(
                f"Postgres at {address.server} cannot be reached ({reason(error)}).",
                "Start it, correct database.url, or leave database.url out to use the embedded one.",
            )
    return None


def check_version(major: int, minor: int, address: DatabaseAddress) -> None:
    """Raises LocalError for an unsupported version of Postgres."""
    if not OLDEST_SUPPORTED <= major <= NEWEST_SUPPORTED:
        raise LocalError(
            f"Postgres at {address.server} is version {major}.{minor}, "
            f"and Palaver supports {OLDEST_SUPPORTED} to {NEWEST_SUPPORTED}.",
            "Point database.url to a supported version, or leave it out to use the embedded one.",
        )


def role(address: DatabaseAddress) -> str:
    return f"the role {address.user}" if address.user else "the role named like this system user"


def reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    # For several hosts or addresses asyncio joins all reasons with the addresses; the first line is enough.
    return first_line(error).rstrip(".")


def first_line(error: BaseException) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return f"{first}."


# Quoted: asyncpg.Connection is generic only in its type stubs.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# All tables are in one schema, whatever search_path the server sets for its roles.
SETTINGS = {"application_name": "palaver", "timezone": "UTC", "search_path": "public"}


async def open_connection(address: DatabaseAddress, *, connect_timeout: float) -> Connection:
    """The caller closes the connection. Raises the errors of the driver."""
    connection = await asyncpg.connect(
        address.url,
        password=address.password,
        timeout=connect_timeout,
        server_settings=SETTINGS,
        # The statements are a fixed set, and a connection caches the last hundred. The driver's default would
        # drop each after five minutes, which costs another round trip and another plan.
        max_cached_statement_lifetime=0,
    )
    try:
        await set_json_codecs(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def connect_once(address: DatabaseAddress, *, connect_timeout: float = 10.0) -> Connection:
    """Open a connection outside the pool; the caller closes it. Raises LocalError when it cannot connect."""
    try:
        return await open_connection(address, connect_timeout=connect_timeout)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        explained = explain_connection_error(error, address)
        if explained is None:
            raise
        raise explained from error


async def set_json_codecs(connection: Connection) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=orjson.dumps, decoder=orjson.loads, format="binary"
    )
    # The binary form of jsonb begins with a version, which has always been 1.
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + orjson.dumps(value),
        decoder=lambda data: orjson.loads(data[1:]),
        format="binary",
    )
