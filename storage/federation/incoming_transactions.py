"""The responses to transactions received from other servers."""

from datetime import timedelta
from typing import NamedTuple

from storage.database import Connection
from storage.federation.audit import AuditRow
from storage.statements import load

SQL = load("storage.federation", "incoming_transactions.sql")


class TransactionResponse(NamedTuple):
    """The response to a transaction, and its entry in the audit log."""

    origin: str
    transaction_id: str
    body: bytes
    audit: AuditRow | None = None


async def fetch_response(connection: Connection, origin: str, transaction_id: str) -> bytes | None:
    """The stored response, or None if this transaction was not received before."""
    body: bytes | None = await connection.fetchval(SQL.fetch_response, origin, transaction_id)
    return body


async def insert_response(connection: Connection, response: TransactionResponse) -> None:
    """Store a response. A second response to the same transaction changes nothing."""
    *columns, audit = response
    if audit is None:
        await connection.execute(SQL.insert_response, *columns)
    else:
        await connection.execute(SQL.insert_response_and_audit, *columns, *audit)


async def prune(connection: Connection, age: timedelta) -> int:
    """Delete older responses, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune, age)
    return deleted
