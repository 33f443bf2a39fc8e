"""Orders: tool calls that people have requested in the rooms of offices, by the event id of the request."""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.offices", "orders.sql")


class OrderRow(NamedTuple):
    event_id: str
    room_id: str
    call_id: str
    at_ms: int


async def insert_order(connection: Connection, order: OrderRow) -> bool:
    """Insert an order. False if it exists."""
    return await connection.fetchval(SQL.insert_order, *order) is True


async def is_order_known(connection: Connection, event_id: str) -> bool:
    return await connection.fetchval(SQL.is_order_known, event_id) is True


async def list_unreported(connection: Connection, limit: int) -> list[OrderRow]:
    """The orders whose result has not been reported in the room, oldest first."""
    return [OrderRow(*row) for row in await connection.fetch(SQL.list_unreported, limit)]


async def mark_reported(connection: Connection, event_id: str) -> None:
    await connection.execute(SQL.mark_reported, event_id)


async def prune(connection: Connection, made_before: int, limit: int) -> int:
    """Delete up to `limit` older orders, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune, made_before, limit)
    return deleted
