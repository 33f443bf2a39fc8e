"""What offices pass over in silence stands in the audit."""

from bridge.connectors.offices.connector import ignored_cancel
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.federation.audit import AuditSearch
from tests.support.agents import NOW, Clock


async def test_a_cancel_of_a_strangers_call_is_a_row(database: Database) -> None:
    """Whose token it was, and which call was meant."""
    trail = AuditTrail(database, now_ms=Clock())
    trail.start()
    trail.note(ignored_cancel("the build agent", "r-1", NOW))
    await trail.close()
    [row] = await trail.search(AuditSearch(), 10)
    assert (row.peer, row.direction, row.act, row.outcome) == (
        "the build agent",
        "in",
        "office_cancel",
        "refused",
    )
    assert row.subject == "r-1"
    assert row.detail is not None
