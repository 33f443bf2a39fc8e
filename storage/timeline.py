"""A room's accepted events in the order of its history, page by page."""

from typing import Final, NamedTuple

from storage.database import Connection
from storage.events import capped
from storage.statements import load

SQL = load("storage", "timeline.sql")


class Spot(NamedTuple):
    """Where an event stands in that order."""

    event_id: str
    depth: int
    origin_server_ts: int


BEGINNING: Final = Spot("", -1, 0)
END: Final = Spot("", 2**63 - 1, 2**63 - 1)


async def page(
    connection: Connection, room_id: str, start: Spot, limit: int, *, backwards: bool
) -> list[Spot]:
    """What follows the spot in that direction, nearest first. The spot itself need not be an event's, and an
    event's may be at any time."""
    sql = SQL.page_backwards if backwards else SQL.page_forwards
    depth, time = capped(start.depth), capped(start.origin_server_ts)
    rows = await connection.fetch(sql, room_id, depth, time, start.event_id, limit)
    return [Spot(*row) for row in rows]
