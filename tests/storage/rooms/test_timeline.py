"""A room's events in the order of its history."""

from storage.database import Database
from storage.rooms.events import END, START, EventRow, HistoryPosition, fetch_page, write_events

DEEPEST = 2**53 - 1


def event(event_id: str, depth: int, ts: int, **change: object) -> EventRow:
    row = EventRow(event_id, "!r", "m.x", None, "@a:b", depth, ts, [], [], "accepted", None, 1, 1, b"{}")
    return row._replace(**change)


async def test_pages_follow_each_other_in_both_directions(database: Database) -> None:
    """By depth, and for equal depths, as after a fork or with a malicious sender, by time and id. Outliers
    and rejected events are left out."""
    rows = [
        event("$a", 1, 10),
        event("$c", 2, 30),
        event("$b", 2, 20),
        event("$e", DEEPEST, 40),
        event("$d", DEEPEST, 40),
        event("$out", 2, 25, state_before=None, state_after=None),
        event("$soft", 2, 25, verdict="soft_failed", refusal="x"),
        event("$elsewhere", 2, 25, room_id="!other"),
    ]
    order = ["$a", "$b", "$c", "$d", "$e"]
    async with database.transaction() as connection:
        await write_events(connection, rows)
        for backwards, start, expected in ((True, END, order[::-1]), (False, START, order)):
            spot: HistoryPosition = start
            seen: list[str] = []
            while found := await fetch_page(connection, "!r", spot, 2, backwards=backwards):
                seen += [one.event_id for one in found]
                spot = found[-1]
            assert seen == expected


async def test_a_position_may_have_any_time(database: Database) -> None:
    """Before room version 6 `origin_server_ts` may be any integer; the column has its clamped value."""
    rows = [event("$a", 2, 10), event("$late", 2, 2**63 - 1), event("$z", 3, 10)]
    async with database.transaction() as connection:
        await write_events(connection, rows)
        spot = HistoryPosition("$late", 2, 10**30)
        for backwards, expected in ((True, "$a"), (False, "$z")):
            (found,) = await fetch_page(connection, "!r", spot, 2, backwards=backwards)
            assert found.event_id == expected
        assert await fetch_page(connection, "!r", HistoryPosition("$a", 2, -(10**30)), 2, backwards=True) == []
