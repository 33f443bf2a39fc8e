"""What goes wrong between a node and its database: lost connections, and reasons why there is none.

A lost connection is passing, and idempotent work may be done again. Everything else is for a person to put
right.
"""

import asyncpg

from storage.address import DatabaseAddress
from storage.errors import LocalError

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
