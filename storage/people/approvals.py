"""Approval requests to people, identified by a reference of the requester."""

from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.people", "approvals.sql")

RETENTION_MS: Final = 30 * 24 * 3_600_000
"""How long an approval is stored after its deadline."""
PRUNED_AT_ONCE: Final = 100


class ApprovalRow(NamedTuple):
    """In the order of the table's columns. Times are milliseconds since 1970."""

    reference: str
    asked_at: int
    until: int
    verdict: str | None = None
    decided_by: str | None = None
    reason: str | None = None


async def insert_approval(connection: Connection, reference: str, now_ms: int, until: int) -> ApprovalRow:
    """Insert an approval request and return it. A request that exists keeps its deadline and its verdict."""
    await connection.execute(SQL.prune, now_ms - RETENTION_MS, PRUNED_AT_ONCE)
    await connection.execute(SQL.insert_approval, reference, now_ms, until)
    return await fetch_approval(connection, reference)


async def fetch_approval(connection: Connection, reference: str) -> ApprovalRow:
    """Fetch an approval request, which must exist."""
    row = await connection.fetchrow(SQL.fetch_approval, reference)
    assert row is not None, "the request exists"
    return ApprovalRow(*row)


async def set_verdict(
    connection: Connection, reference: str, verdict: str, decided_by: str | None, reason: str | None
) -> ApprovalRow:
    """Store the verdict, unless there is one, and return the approval request."""
    await connection.execute(SQL.set_verdict, reference, verdict, decided_by, reason)
    return await fetch_approval(connection, reference)
