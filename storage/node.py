"""Which server name a database belongs to."""

from storage.database import Connection
from storage.errors import LocalError
from storage.statements import load

SQL = load("storage", "node.sql")


async def claim(connection: Connection, server_name: str) -> None:
    """Make the database this node's for good, or refuse to touch that of another one."""
    await connection.execute(SQL.insert_node, server_name)
    owner = await fetch_server_name(connection)
    if owner != server_name:
        raise LocalError(
            f"This database belongs to the node {owner}, and this node is called {server_name}.",
            "Set server_name back, or point database.url or data_dir to a database of its own.",
        )


async def fetch_server_name(connection: Connection) -> str | None:
    """The node that the database belongs to, if one has claimed it."""
    name: str | None = await connection.fetchval(SQL.fetch_server_name)
    return name
