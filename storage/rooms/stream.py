"""The stream: all events that concern this node, in one durable order, while several processes write.

A position is assigned before its transaction commits, so a reader that simply queried everything after its
own position would miss events with a smaller position that are committed later. Therefore each writer holds a
shared advisory lock whose number contains a position below all of its own, from before it takes them until
its transaction has ended; a reader stops at the lowest position in these locks.

The table of cursors has the position of each reader. The process that holds the lease of a reader's name is
that reader. A session may end without the process noticing, so the lease alone would let two processes
advance: each reader also has a term, and only the newest term may advance.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "stream.sql")

Kind = Literal["timeline", "state", "unset", "invite"]

TAG = 0x5053  # "PS": the upper 16 bits of the locks' numbers; no other advisory lock uses them


class StreamRow(NamedTuple):
    position: int
    room_id: str
    event_id: str
    kind: Kind


async def append(connection: Connection, entries: Sequence[tuple[str, str, Kind]]) -> list[int]:
    """Append entries of (room id, event id, kind), and return their positions. Call it once in a transaction,
    late in it."""
    if not entries:
        return []
    columns = (list(column) for column in zip(*entries, strict=True))
    rows = await connection.fetch(SQL.append, TAG, *columns)
    return [row[0] for row in rows]


async def read(connection: Connection, after: int, limit: int) -> list[StreamRow]:
    """The entries after a position, up to the point before which nothing can appear any more.

    Executes two statements, of which the second must see at least everything that was committed when the
    first one ran. So the connection must not be in a transaction with a higher isolation than Postgres's
    default; it may be in none.
    """
    horizon = await fetch_last_position(connection)
    return [StreamRow(*row) for row in await connection.fetch(SQL.read, after, horizon, limit)]


async def fetch_last_position(connection: Connection) -> int:
    """The position at which a reader of new entries starts: everything committed later has a greater one."""
    position: int = await connection.fetchval(SQL.horizon, TAG)
    return position


ReaderPosition: TypeAlias = tuple[str, int, int]
"""(name, term, position). Statements that advance a reader together with the results of what it read take
one."""


class ReaderReplaced(Exception):
    """Another process is now the reader of this name. Nothing that this process has read may be committed."""


async def begin_term(connection: Connection, name: str, beginning: int) -> int:
    """Start a new term, which ends the previous one. `beginning` is the position of a new reader."""
    term: int = await connection.fetchval(SQL.begin_term, name, beginning)
    return term


async def fetch_position(connection: Connection, name: str, term: int) -> int:
    """Raises `ReaderReplaced`."""
    position: int | None = await connection.fetchval(SQL.fetch_position, name, term)
    if position is None:
        raise ReaderReplaced(name)
    return position


async def advance(connection: Connection, name: str, term: int, position: int) -> None:
    """Advance the reader to the position. Raises `ReaderReplaced`; then the transaction must be rolled
    back."""
    if await connection.fetchval(SQL.advance, name, term, position) is None:
        raise ReaderReplaced(name)


async def list_cursors(connection: Connection) -> dict[str, int]:
    """The position of each reader, by name."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.list_cursors)}
