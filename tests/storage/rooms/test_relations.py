"""Relations between events."""

from storage.database import Database
from storage.rooms.events import EventRow, Verdict, fetch_relations, insert_relations, write_events


def event(event_id: str, depth: int, verdict: Verdict = "accepted", room_id: str = "!r") -> EventRow:
    refusal = None if verdict == "accepted" else "rule: text"
    return EventRow(event_id, room_id, "m.reaction", None, "@a:b", depth, 5, [], [], verdict, refusal, 1, 1, b"{}")


async def test_relations_are_listed_in_the_order_of_the_history(database: Database) -> None:
    """All or of one type; each event once, even with two relations. Rejected events and events of other rooms
    are left out."""
    async with database.transaction() as connection:
        refused, elsewhere = event("$refused", 1, "rejected"), event("$elsewhere", 1, room_id="!other")
        await write_events(connection, [event("$2", 2), event("$1", 1), event("$3", 3), refused, elsewhere])
        rows = [("$t", "m.annotation", one) for one in ("$1", "$2", "$refused", "$elsewhere", "$unknown")]
        await insert_relations(connection, [*rows, ("$t", "m.thread", "$3"), ("$t", "m.in_reply_to", "$3")])
        await insert_relations(connection, rows)
        await insert_relations(connection, [])
        assert await fetch_relations(connection, "!r", "$t", None, 10) == ["$1", "$2", "$3"]
        assert await fetch_relations(connection, "!r", "$t", "m.annotation", 10) == ["$1", "$2"]
        assert await fetch_relations(connection, "!r", "$t", "m.annotation", 1) == ["$1"]
        assert await fetch_relations(connection, "!r", "$other", None, 10) == []
