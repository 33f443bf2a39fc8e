"""The audit log."""

from datetime import UTC, datetime, timedelta

from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch, insert_entries, prune, search

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def row(minute: int, peer: str | None = "a.example", **more: str) -> AuditRow:
    made = AuditRow(BEGIN + timedelta(minutes=minute), peer, "in", "send_join", None, None, None, "done", None)
    return made._replace(**more)


ROWS = [
    row(0),
    row(1, "b.example", user_id="@b:b.example", room_id="!r:a.example", subject="$e", detail="words"),
    row(2, "b.example", room_id="!r:a.example", direction="out"),
    row(3, None, outcome="unauthenticated"),
    row(3, user_id="@b:b.example"),
]
ODD = [
    row(4, "ä 𝄞 \u2028", subject='" \\ \x1f {}', detail="NULL")._replace(at=BEGIN + timedelta(days=1, microseconds=1)),
    row(5, "", detail="null"),
]


async def test_rows_are_stored_unchanged(database: Database) -> None:
    """The newest first; of the same moment, the one written last."""
    async with database.transaction() as connection:
        await insert_entries(connection, ROWS[:-1])
        await insert_entries(connection, [])
        await insert_entries(connection, ROWS[-1:])
        assert await search(connection, AuditSearch(), 10) == ROWS[::-1]
        assert await search(connection, AuditSearch(), 2) == ROWS[:-3:-1]
        await insert_entries(connection, ODD)
        assert await search(connection, AuditSearch(since=BEGIN + timedelta(minutes=4)), 10) == ODD


async def test_rows_are_found_by_their_fields(database: Database) -> None:
    """By one or several."""
    async with database.transaction() as connection:
        await insert_entries(connection, ROWS)

        async def found(**wanted: object) -> list[int]:
            rows = await search(connection, AuditSearch(**wanted), 10)  # type: ignore[arg-type]
            return [ROWS.index(one) for one in rows]

        assert await found(peer="b.example") == [2, 1]
        assert await found(user_id="@b:b.example") == [4, 1]
        assert await found(room_id="!r:a.example") == [2, 1]
        assert await found(since=BEGIN + timedelta(minutes=2)) == [4, 3, 2]
        assert await found(peer="b.example", user_id="@b:b.example") == [1]
        assert await found(peer="B.example") == []


async def test_old_rows_are_pruned(database: Database) -> None:
    """The oldest first, at most `limit` at once."""
    async with database.transaction() as connection:
        await insert_entries(connection, ROWS[::-1])
        before = BEGIN + timedelta(minutes=3)
        assert await prune(connection, before, 2) == 2
        assert await search(connection, AuditSearch(), 10) == [ROWS[3], ROWS[4], ROWS[2]]
        assert await prune(connection, before, 2) == 1
        assert await prune(connection, before, 2) == 0
        assert len(await search(connection, AuditSearch(), 10)) == 2
