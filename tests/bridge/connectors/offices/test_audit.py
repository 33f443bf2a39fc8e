"""Audit entries of offices."""

from bridge.connectors.offices.connector import ignored_cancel
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.federation.audit import AuditSearch
from tests.support.agents import NOW, Clock


async def test_an_ignored_cancel_is_audited(database: Database) -> None:
    """With the owner of the token and the call's id."""
    trail = AuditTrail(database, now_ms=Clock())
    trail.start()
    trail.record(ignored_cancel("the build agent", "r-1", NOW))
    await trail.close()
    [row] = await trail.search(AuditSearch(), 10)
    assert (row.peer, row.direction, row.act, row.outcome) == ("the build agent", "in", "office_cancel", "refused")
    assert row.subject == "r-1"
    assert row.detail is not None
