"""Opening a connection to Postgres as all of a node are: its settings, and JSON as plain values.

Where a database is. One form for both kinds of server; the password is kept apart and never shown.

What goes wrong between a node and its database: lost connections, and reasons why there is none.

A lost connection is passing, and idempotent work may be done again. Everything else is for a person to put
right.
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
    """`url` holds no secret: it may be shown to a person and stand on a command line."""

    url: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def at_socket(cls, directory: Path, port: int, user: str, database: str) -> Self:
        query = f"host={quote(str(directory), safe='')}&port={port}"
        return cls(f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?{query}")

    @classmethod
    def from_url(cls, url: str, password: str | None = None) -> Self:
        """`password` comes from a file and outranks one that somebody wrote into the URL."""
        try:
            parts = urlsplit(url.strip())
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            _ = parts.port if "," not in parts.netloc else None
        except ValueError:
            raise malformed() from None
        names = {name for name, _ in query}
        if parts.scheme not in SCHEMES or not (parts.netloc or "host" in names):
            raise malformed()
        if "sslpassword" in names:
            raise LocalError(
                "database.url holds the passphrase of a TLS key, and a URL is no place for a secret.",
                "Take sslpassword out of it and use a key without a passphrase, readable by the node alone.",
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
        """The database's name as far as the address says it; without, Postgres takes the user's name."""
        parts = urlsplit(self.url)
        query = dict(parse_qsl(parts.query))
        return (
            query.get("dbname") or query.get("database") or unquote(parts.path.removeprefix("/")) or self.user
        )

    @property
    def user(self) -> str:
        parts = urlsplit(self.url)
        return dict(parse_qsl(parts.query)).get("user") or unquote(parts.netloc.rpartition("@")[0])

    @property
    def server(self) -> str:
        """The server for a sentence that a person reads."""
        parts = urlsplit(self.url)
        hosts = parts.netloc.rpartition("@")[2]
        return unquote(hosts) or dict(parse_qsl(parts.query)).get("host", "this machine")


def malformed() -> LocalError:
    # What was written is not repeated: it may hold a password that made it unreadable.
    return LocalError(
        "database.url is not a Postgres URL.",
        "Write it as postgresql://USER@HOST:5432/DATABASE and put the password into database.password_file.",
    )


OLDEST, NEWEST = 15, 18

LOST: tuple[type[Exception], ...] = (
    asyncpg.PostgresConnectionError,  # class 08, and asyncpg's own "closed in the middle of operation"
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    ConnectionError,
)
BROKEN = (*LOST, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""All that asyncpg raises on a connection that is breaking. Between the server's farewell and the end of the
stream it calls a use of the connection a wrong use of itself, or finds itself in a state that it does not
know."""


class ConnectionLost(LocalError):
    """What a node stands on went away: its database, or, in a class of its own, the homeserver of which it is
    a guest. Whether what was being committed holds is not known."""

    def __init__(self, address: DatabaseAddress) -> None:
        super().__init__(
            f"The connection to Postgres at {address.server} was lost.",
            "Palaver goes on by itself once Postgres answers again; look there if it does not.",
        )


def is_connection_loss(error: BaseException) -> bool:
    """Is the error one after which the same work, if it may be done twice, is worth trying again?"""
    return isinstance(error, (ConnectionLost, *LOST))


def refusal(error: BaseException, address: DatabaseAddress) -> LocalError | None:
    """Why there is no connection, for a person; None for an error that says nothing about that.

    A server whose password method is not `trust` gives the same answer for a role that does not exist as for
    a wrong password, on purpose.
    """
    match error:
        case asyncpg.InvalidPasswordError():
            return LocalError(
                f"Postgres at {address.server} does not accept the password for {role(address)}.",
                "Put the right password into the file that database.password_file names, "
                "and see that the role exists.",
            )
        case asyncpg.InvalidAuthorizationSpecificationError():
            return LocalError(
                f"Postgres at {address.server} does not let {role(address)} in.",
                f"Create that role there (CREATE ROLE … LOGIN), or allow it in the server's pg_hba.conf; "
                f"Postgres says: {sentence(error)}",
            )
        case asyncpg.InvalidCatalogNameError():
            return LocalError(
                f"Postgres at {address.server} has no database called {address.database}.",
                f"Create it there (CREATE DATABASE … OWNER …) for {role(address)}, or correct database.url.",
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
                f"Postgres at {address.server} is starting or stopping and takes no connections.",
                "Wait until it is ready and start the node again.",
            )
        case asyncpg.ClientConfigurationError():
            return LocalError(
                "database.url says something that cannot be used.",
                f"Correct it; the driver says: {sentence(error)}",
            )
        case OSError() | asyncpg.PostgresConnectionError():
            return LocalError(
                f"There is no Postgres to be reached at {address.server} ({reason(error)}).",
                "Start it, correct database.url, or leave database.url out to use the embedded one.",
            )
    return None


def refuse_version(major: int, minor: int, address: DatabaseAddress) -> None:
    if not OLDEST <= major <= NEWEST:
        raise LocalError(
            f"Postgres at {address.server} is version {major}.{minor}, "
            f"and Palaver works with {OLDEST} to {NEWEST}.",
            "Point database.url to one of these, or leave it out to use the embedded one.",
        )


def role(address: DatabaseAddress) -> str:
    return f"the role {address.user}" if address.user else "the role named like this system user"


def reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    # Of several hosts or addresses asyncio joins the reasons with the addresses; the first line is enough.
    return sentence(error).rstrip(".")


def sentence(error: BaseException) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return f"{first}."


# Quoted: only the types of asyncpg are generic, not its classes.
Single: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Tables are in one schema, whatever a server gives its roles to search first.
SETTINGS = {"application_name": "palaver", "timezone": "UTC", "search_path": "public"}


async def open_connection(address: DatabaseAddress, *, connect_timeout: float) -> Single:
    """To be closed by the caller. What goes wrong is raised as the driver says it."""
    connection = await asyncpg.connect(
        address.url,
        password=address.password,
        timeout=connect_timeout,
        server_settings=SETTINGS,
        # The statements are a fixed set, of which a connection keeps the last hundred. Forgotten every five
        # minutes, as is the driver's way, each would take another round trip and another plan.
        max_cached_statement_lifetime=0,
    )
    try:
        await prepare(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def connect_once(address: DatabaseAddress, *, connect_timeout: float = 10.0) -> Single:
    """A connection of one's own, outside every pool; to be closed by the caller. LocalError says why not."""
    try:
        return await open_connection(address, connect_timeout=connect_timeout)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        explained = refusal(error, address)
        if explained is None:
            raise
        raise explained from error


async def prepare(connection: Single) -> None:
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
