"""States of rooms, each a snapshot or what changed since another one."""

from collections.abc import Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "state_groups.sql")

IDS_AT_ONCE = 64
"""How many ids one step of the sequence stands for. The migration says the same."""


class StateGroupRow(NamedTuple):
    """In the order of the table's columns. The last three run in parallel; an event id that is None takes the
    key out of the parent's state. `distance` is 0 for a snapshot, which has no parent."""

    id: int
    room_id: str
    parent: int | None
    distance: int
    types: Sequence[str]
    state_keys: Sequence[str]
    event_ids: Sequence[str | None]


async def reserve_ids(connection: Connection) -> range:
    """Ids that nobody else gets. Those that are not used are lost, which is no harm."""
    first = await connection.fetchval(SQL.reserve_ids)
    return range(first, first + IDS_AT_ONCE)


async def insert_state_groups(connection: Connection, rows: Sequence[StateGroupRow]) -> None:
    if rows:
        await connection.execute(SQL.insert_state_groups, rows)


async def fetch_chain(connection: Connection, group: int) -> list[StateGroupRow]:
    """The snapshot that a group rests on and everything up to the group, oldest first. Empty when there is no
    such group."""
    return [StateGroupRow(*row) for row in await connection.fetch(SQL.fetch_chain, group)]
