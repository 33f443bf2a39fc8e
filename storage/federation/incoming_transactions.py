"""What was answered to the transactions that other servers sent."""

from datetime import timedelta
from typing import NamedTuple

from storage.database import Connection
from storage.federation.audit import AuditRow
from storage.statements import load

SQL = load("storage.federation", "incoming_transactions.sql")


class TransactionResponse(NamedTuple):
    """A transaction, what was answered to it, and what the audit says of it."""

    origin: str
    transaction_id: str
    answer: bytes
    audit: AuditRow | None = None


async def fetch_response(connection: Connection, origin: str, transaction_id: str) -> bytes | None:
    """The answer, if this transaction was taken in before."""
    answer: bytes | None = await connection.fetchval(SQL.fetch_response, origin, transaction_id)
    return answer


async def insert_response(connection: Connection, answered: TransactionResponse) -> None:
    """A second answer to the same transaction changes nothing."""
    *answer, audit = answered
    if audit is None:
        await connection.execute(SQL.insert_response, *answer)
    else:
        await connection.execute(SQL.insert_response_and_audit, *answer, *audit)


async def prune(connection: Connection, age: timedelta) -> int:
    """Forget those that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune, age)
    return forgotten
