"""Which node a database belongs to, and which side of it."""

from typing import NamedTuple

from storage.database import Connection
from storage.errors import LocalError
from storage.statements import load

SQL = load("storage", "node.sql")


class NodeOwner(NamedTuple):
    """`attached_to` is the homeserver of which the node is a guest; None: it is a homeserver itself."""

    server_name: str
    attached_to: str | None = None


async def claim(connection: Connection, server_name: str, attached_to: str | None = None) -> None:
    """Make the database this node's for good, or refuse to touch that of another one."""
    await connection.execute(SQL.insert_node, server_name, attached_to)
    wrong = wrong_owner(await fetch_owner(connection), NodeOwner(server_name, attached_to))
    if wrong is not None:
        raise wrong


def wrong_owner(found: NodeOwner | None, wanted: NodeOwner) -> LocalError | None:
    """Why the database of the one is not for the other."""
    if found is None or found == wanted:
        return None
    if found.server_name != wanted.server_name:
        return LocalError(
            f"This database belongs to the node {found.server_name}, and this node is called"
            f" {wanted.server_name}.",
            "Set server_name back, or point database.url or data_dir to a database of its own.",
        )
    if found.attached_to is None or wanted.attached_to is None:
        back = "federation" if found.attached_to is None else "appservice"
        return LocalError(
            f"This database is that of {_role(found)}, and the configuration makes of the node"
            f" {_role(wanted)}.",
            f'Set matrix_side back to "{back}", or point database.url or data_dir to a database of its own:'
            " one side cannot read what the other keeps.",
        )
    return LocalError(
        f"This database is that of {_role(found)}, and the configuration says {wanted.attached_to}.",
        "Set appservice.domain back, or point database.url or data_dir to a database of its own: its rooms"
        f" are those of {found.attached_to}.",
    )


def _role(owner: NodeOwner) -> str:
    return "a homeserver" if owner.attached_to is None else f"a guest of {owner.attached_to}"


async def fetch_owner(connection: Connection) -> NodeOwner | None:
    """Whose the database is, if anybody has claimed it."""
    row = await connection.fetchrow(SQL.fetch_owner)
    return None if row is None else NodeOwner(*row)


async def fetch_server_name(connection: Connection) -> str | None:
    """The node that the database belongs to, if one has claimed it."""
    name: str | None = await connection.fetchval(SQL.fetch_server_name)
    return name
