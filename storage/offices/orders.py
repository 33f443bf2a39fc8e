"""Calls of tools that people have asked for in the rooms of offices, by the messages in which they did."""

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
    """Whether it is new."""
    return await connection.fetchval(SQL.insert_order, *order) is True


async def is_order_known(connection: Connection, event_id: str) -> bool:
    return await connection.fetchval(SQL.is_order_known, event_id) is True


async def list_unreported(connection: Connection, limit: int) -> list[OrderRow]:
    """Those of which whoever has asked does not know what came of it, the oldest first."""
    return [OrderRow(*row) for row in await connection.fetch(SQL.list_unreported, limit)]


async def mark_reported(connection: Connection, event_id: str) -> None:
    await connection.execute(SQL.mark_reported, event_id)


async def prune(connection: Connection, made_before: int, limit: int) -> int:
    """Forget up to `limit` that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune, made_before, limit)
    return forgotten
