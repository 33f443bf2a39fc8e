"""`palaver audit`."""

from datetime import UTC, datetime, timedelta

from storage.federation.audit import AuditRow, insert_entries
from tests.bridge.control.server.conftest import Operator

NOW = datetime.now(UTC)


def row(minutes: int, peer: str | None = "there.test", **more: object) -> AuditRow:
    made = AuditRow(
        NOW - timedelta(minutes=minutes), peer, "in", "send_join", "@a:there.test", "!r", "$e", "done", None
    )
    return made._replace(**more)


async def test_entries_are_filtered(operator: Operator) -> None:
    """By peer, user, room and time; the newest first."""
    rows = [
        row(1),
        row(2, "other.test", direction="out", outcome="refused", detail="403 M_FORBIDDEN: No."),
        row(90, None, user_id=None, room_id="!other", subject=None),
    ]
    async with operator.node.database.transaction() as connection:
        await insert_entries(connection, rows)
    every = (await operator.ask("audit"))["acts"]
    assert [act["peer"] for act in every] == ["there.test", "other.test", None]
    assert every[0]["at"] == int(rows[0].at.timestamp() * 1000)
    assert (every[1]["direction"], every[1]["outcome"]) == ("out", "refused")
    assert every[1]["detail"] == "403 M_FORBIDDEN: No."
    for wanted, count in (
        ({"peer": "there.test"}, 1),
        ({"user": "@a:there.test"}, 2),
        ({"room": "!other"}, 1),
        ({"seconds": 3600}, 2),
        ({"peer": "nobody.test"}, 0),
    ):
        assert len((await operator.ask("audit", **wanted))["acts"]) == count, wanted
    page = await operator.ask("audit", limit=2)
    assert (len(page["acts"]), page["more"]) == (2, True)
