"""Questions that people are asked before something is done, by the reference of whoever asks."""

from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.people", "approvals.sql")

RETENTION_MS: Final = 30 * 24 * 3_600_000
"""After the time for an answer."""
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
    """The question as it stands: asked before, it keeps its time and its verdict."""
    await connection.execute(SQL.prune, now_ms - RETENTION_MS, PRUNED_AT_ONCE)
    await connection.execute(SQL.insert_approval, reference, now_ms, until)
    return await fetch_approval(connection, reference)


async def fetch_approval(connection: Connection, reference: str) -> ApprovalRow:
    """Of a question that was asked."""
    row = await connection.fetchrow(SQL.fetch_approval, reference)
    assert row is not None, "it was asked"
    return ApprovalRow(*row)


async def set_verdict(
    connection: Connection, reference: str, verdict: str, decided_by: str | None, reason: str | None
) -> ApprovalRow:
    """The first verdict counts; the question with it."""
    await connection.execute(SQL.set_verdict, reference, verdict, decided_by, reason)
    return await fetch_approval(connection, reference)
