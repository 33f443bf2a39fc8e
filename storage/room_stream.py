"""Everything taken in, in one durable order, while several processes write.

A position is given out before its transaction ends, so that a reader who simply asked for all beyond its
cursor would miss what was given out earlier and is committed later. Therefore each writer holds a shared
advisory lock that names a position below all of its own, from before it takes them until its transaction has
ended; a reader goes no further than the lowest position that is named so.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "room_stream.sql")

Kind = Literal["timeline", "state", "unset", "invite"]

CHANNEL = "palaver_room_stream"
TAG = 0x5053  # "PS": the upper 16 bits of the locks' numbers, which no other advisory lock has


class StreamRow(NamedTuple):
    position: int
    room_id: str
    event_id: str
    kind: Kind


async def append(connection: Connection, entries: Sequence[tuple[str, str, Kind]]) -> list[int]:
    """Entries of (room id, event id, kind), and the positions they get. Once in a transaction, late in it."""
    if not entries:
        return []
    columns = (list(column) for column in zip(*entries, strict=True))
    rows = await connection.fetch(SQL.append, TAG, *columns)
    return [row[0] for row in rows]


async def read(connection: Connection, after: int, limit: int) -> list[StreamRow]:
    """What follows a position, as far as nothing can still appear before it.

    Two statements, in this order: the second one has to see at least what was so when the first one ran. So
    the connection must not be in a transaction of a higher isolation than Postgres's default; it need be in
    none.
    """
    horizon = await connection.fetchval(SQL.horizon, TAG)
    return [StreamRow(*row) for row in await connection.fetch(SQL.read, after, horizon, limit)]


async def last_position(connection: Connection) -> int:
    """Where a reader begins who is interested only in what is to come."""
    position: int = await connection.fetchval(SQL.last_position)
    return position


async def lock_listener(connection: Connection) -> None:
    """Until its end this session counts as one that listens. To be called before it does."""
    await connection.execute(SQL.lock_listener)


async def is_only_listener(connection: Connection) -> bool:
    """Whether no session but this one counts as one that listens."""
    is_only: bool = await connection.fetchval(SQL.is_only_listener)
    return is_only


async def notify(connection: Connection, process: str) -> None:
    """Wake the readers, and say which process does. Apart from the transaction that wrote: a transaction that
    notifies keeps all others that do from committing at the same time."""
    await connection.execute(SQL.notify, process)
