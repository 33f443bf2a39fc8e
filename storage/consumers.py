"""How far each reader of the stream has come, and which process is the reader.

A session that holds the lock of a name is its reader. It may end without the process noticing, so that the
lock alone would let two advance: each reader has a term besides, and only the newest one's counts.
"""

from typing import TypeAlias

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "consumers.sql")

Place: TypeAlias = tuple[str, int, int]
"""To which a reader has come: its name, its term, and the position. Statements that advance it together with
what was made of what it read are given one."""


class TakenOver(Exception):
    """Another process reads under this name now. Nothing of this one's is committed any more."""


async def try_lock_consumer(connection: Connection, name: str) -> bool:
    """Whether this session is now the one that reads under the name. It stays so until it says otherwise or
    ends, in whatever way."""
    locked: bool = await connection.fetchval(SQL.try_lock_consumer, name)
    return locked


async def try_share_consumer(connection: Connection, name: str) -> bool:
    """Whether this session has the lock now, as others may that share it. It has it until it ends."""
    shared: bool = await connection.fetchval(SQL.try_share_consumer, name)
    return shared


async def unlock_consumer(connection: Connection, name: str) -> None:
    await connection.execute(SQL.unlock_consumer, name)


async def take_over(connection: Connection, name: str, beginning: int) -> int:
    """A new term, which ends the one before. `beginning` is where to begin for a name that has never read."""
    term: int = await connection.fetchval(SQL.take_over, name, beginning)
    return term


async def fetch_position(connection: Connection, name: str, term: int) -> int:
    """Raises `TakenOver`."""
    position: int | None = await connection.fetchval(SQL.fetch_position, name, term)
    if position is None:
        raise TakenOver(name)
    return position


async def advance(connection: Connection, name: str, term: int, position: int) -> None:
    """Raises `TakenOver`, and then nothing else of the transaction may be committed either."""
    if await connection.fetchval(SQL.advance, name, term, position) is None:
        raise TakenOver(name)


async def list_cursors(connection: Connection) -> dict[str, int]:
    """The position of every reader by its name."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.list_cursors)}
