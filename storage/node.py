"""The node to which a database belongs, and its Matrix backend."""

from typing import NamedTuple

from storage.database import Connection
from storage.errors import LocalError
from storage.statements import load

SQL = load("storage", "node.sql")


class NodeOwner(NamedTuple):
    """`attached_to` is the homeserver to which the node is attached as an application service, or None for a
    node that is a homeserver itself."""

    server_name: str
    attached_to: str | None = None


async def claim(connection: Connection, server_name: str, attached_to: str | None = None) -> None:
    """Assign the database to this node permanently. Raises LocalError if it belongs to another node or to
    another Matrix backend."""
    await connection.execute(SQL.insert_node, server_name, attached_to)
    wrong = wrong_owner(await fetch_owner(connection), NodeOwner(server_name, attached_to))
    if wrong is not None:
        raise wrong


def wrong_owner(found: NodeOwner | None, wanted: NodeOwner) -> LocalError | None:
    """Return why the node `wanted` cannot use the database of `found`, or None if it can."""
    if found is None or found == wanted:
        return None
    if found.server_name != wanted.server_name:
        return LocalError(
            f"This database belongs to the node {found.server_name}, but this node's server_name is"
            f" {wanted.server_name}.",
            "Set server_name back, or point database.url or data_dir to another database.",
        )
    if found.attached_to is None or wanted.attached_to is None:
        back = "federation" if found.attached_to is None else "appservice"
        return LocalError(
            f"This database belongs to {_role(found)}, but the node is configured as {_role(wanted)}.",
            f'Set matrix_side back to "{back}", or point database.url or data_dir to another database:'
            " the two Matrix backends cannot share one.",
        )
    return LocalError(
        f"This database belongs to {_role(found)}, but appservice.domain is {wanted.attached_to}.",
        "Set appservice.domain back, or point database.url or data_dir to another database: the rooms in this"
        f" one are those of {found.attached_to}.",
    )


def _role(owner: NodeOwner) -> str:
    if owner.attached_to is None:
        return "a homeserver"
    return f"an application service of {owner.attached_to}"


async def fetch_owner(connection: Connection) -> NodeOwner | None:
    """The node that has claimed the database, or None."""
    row = await connection.fetchrow(SQL.fetch_owner)
    return None if row is None else NodeOwner(*row)


async def fetch_server_name(connection: Connection) -> str | None:
    """The server name of the node that has claimed the database, or None."""
    name: str | None = await connection.fetchval(SQL.fetch_server_name)
    return name
