"""Everything taken in, in one durable order, while several processes write.

A position is given out before its transaction ends, so that a reader who simply asked for all beyond its
cursor would miss what was given out earlier and is committed later. Therefore each writer holds a shared
advisory lock that names a position below all of its own, from before it takes them until its transaction has
ended; a reader goes no further than the lowest position that is named so.

How far each reader of the stream has come, and which process is the reader.

The process that holds the lease of a name is its reader. A session may end without the process noticing, so
that the lease alone would let two advance: each reader has a term besides, and only the newest one's counts.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "stream.sql")

Kind = Literal["timeline", "state", "unset", "invite"]

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
    horizon = await fetch_last_position(connection)
    return [StreamRow(*row) for row in await connection.fetch(SQL.read, after, horizon, limit)]


async def fetch_last_position(connection: Connection) -> int:
    """Where a reader begins that wants only new entries: all that is committed later stands behind it."""
    position: int = await connection.fetchval(SQL.horizon, TAG)
    return position


ReaderPosition: TypeAlias = tuple[str, int, int]
"""To which a reader has come: its name, its term, and the position. Statements that advance it together with
what was made of what it read are given one."""


class ReaderReplaced(Exception):
    """Another process reads under this name now. Nothing of this one's is committed any more."""


async def begin_term(connection: Connection, name: str, beginning: int) -> int:
    """A new term, which ends the one before. `beginning` is where to begin for a name that has never read."""
    term: int = await connection.fetchval(SQL.begin_term, name, beginning)
    return term


async def fetch_position(connection: Connection, name: str, term: int) -> int:
    """Raises `ReaderReplaced`."""
    position: int | None = await connection.fetchval(SQL.fetch_position, name, term)
    if position is None:
        raise ReaderReplaced(name)
    return position


async def advance(connection: Connection, name: str, term: int, position: int) -> None:
    """Raises `ReaderReplaced`, and then nothing else of the transaction may be committed either."""
    if await connection.fetchval(SQL.advance, name, term, position) is None:
        raise ReaderReplaced(name)


async def list_cursors(connection: Connection) -> dict[str, int]:
    """The position of every reader by its name."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.list_cursors)}
