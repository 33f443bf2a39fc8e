"""Approval requests to people."""

from storage.database import Database
from storage.people.approvals import RETENTION_MS, ApprovalRow, insert_approval, set_verdict

NOW = 1_700_000_000_000


async def test_an_approval_keeps_its_deadline_and_its_first_verdict(database: Database) -> None:
    """However often it is requested and decided."""
    approval = ApprovalRow("test/1", NOW, NOW + 60)
    async with database.transaction() as connection:
        assert await insert_approval(connection, "test/1", NOW, NOW + 60) == approval
        assert await insert_approval(connection, "test/1", NOW + 5, NOW + 65) == approval
        decided = approval._replace(verdict="refused", decided_by="@alice:here.test")
        assert await set_verdict(connection, "test/1", "refused", "@alice:here.test", None) == decided
        assert await set_verdict(connection, "test/1", "withdrawn", None, "It is gone.") == decided
        assert await insert_approval(connection, "test/1", NOW + 5, NOW + 65) == decided


async def test_old_approvals_are_pruned(database: Database) -> None:
    """A month after their deadline."""
    async with database.transaction() as connection:
        await insert_approval(connection, "test/1", NOW, NOW + 60)
        await insert_approval(connection, "test/2", NOW + RETENTION_MS + 61, NOW + RETENTION_MS + 121)
        assert await connection.fetchval("SELECT count(*) FROM approvals") == 1
