"""What offices pass over in silence stands in the audit."""

from bridge.service.office_audit import OfficeAudit
from federation.service.audit import AuditTrail
from storage.audit import AuditSearch
from storage.database import Database
from tests.support.agents import Clock


async def test_a_cancel_of_a_strangers_call_is_a_row(database: Database) -> None:
    """Whose token it was, and which call was meant."""
    trail = AuditTrail(database, now_ms=Clock())
    trail.start()
    OfficeAudit(trail, now_ms=Clock()).ignored_cancel("the build agent", "r-1")
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
