"""Stored responses to transactions."""

from datetime import UTC, datetime, timedelta

from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch, search
from storage.federation.incoming_transactions import TransactionResponse, fetch_response, insert_response, prune


async def test_a_response_is_stored_by_origin_and_transaction(database: Database) -> None:
    """The first response stays."""
    async with database.transaction() as connection:
        await insert_response(connection, TransactionResponse("a.example", "1", b"{}"))
        await insert_response(connection, TransactionResponse("a.example", "1", b"{2}"))
        assert await fetch_response(connection, "a.example", "1") == b"{}"
        assert await fetch_response(connection, "b.example", "1") is None


async def test_a_response_is_written_together_with_its_audit_entry(database: Database) -> None:
    """A repeated transaction gets another audit entry."""
    row = AuditRow(
        datetime(2026, 1, 1, tzinfo=UTC), "a.example", "in", "transaction", None, None, "1", "done", "1 EDUs"
    )
    async with database.transaction() as connection:
        await insert_response(connection, TransactionResponse("a.example", "1", b"{}", row))
        assert await fetch_response(connection, "a.example", "1") == b"{}"
        await insert_response(connection, TransactionResponse("a.example", "1", b"{2}", row))
        assert await fetch_response(connection, "a.example", "1") == b"{}"
        assert await search(connection, AuditSearch(), 10) == [row, row]


async def test_old_responses_are_pruned(database: Database) -> None:
    """A server repeats a transaction for some hours only."""
    async with database.transaction() as connection:
        await insert_response(connection, TransactionResponse("a.example", "1", b"{}"))
        assert await prune(connection, timedelta(hours=1)) == 0
        assert await prune(connection, timedelta(seconds=-1)) == 1
        assert await fetch_response(connection, "a.example", "1") is None
