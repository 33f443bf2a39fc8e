"""Events and the verdicts on them."""

from storage.database import Database
from storage.rooms.events import (
    EventRow,
    GraphEntry,
    StoredEvent,
    fetch_ancestors,
    fetch_auth_edges,
    fetch_backward_extremities,
    fetch_events,
    fetch_graph_entries,
    fetch_least_depth,
    find_nearest,
    write_events,
)
from storage.rooms.rooms import RoomRow, insert_room

ROOM = RoomRow("!room", "12", 1, [], 1)


def row(event_id: str, depth: int = 1, *, prev: tuple[str, ...] = (), auth: tuple[str, ...] = ()) -> EventRow:
    return EventRow(
        event_id, "!room", "m.room.message", None, "@a:b", depth, depth * 10, list(prev), list(auth),
        "accepted", None, 5, 5, b"{}",
    )  # fmt: skip


def outlier(event_id: str, **more: object) -> EventRow:
    return row(event_id)._replace(state_before=None, state_after=None, **more)


def stored(row: EventRow) -> StoredEvent:
    return StoredEvent(row.event_id, "12", row.verdict, row.refusal, row.state_before, row.state_after, row.canonical)


async def test_written_events_are_read(database: Database) -> None:
    """Unknown ids are left out."""
    refused = outlier("$b")._replace(verdict="rejected", refusal="rule 5", state_key="", canonical=b"\x00\xff")
    async with database.transaction() as connection:
        await insert_room(connection, ROOM)
        await write_events(connection, [row("$a", prev=("$x", "$y"), auth=("$z",)), refused])
        await write_events(connection, [])
        found = {one.event_id: one for one in await fetch_events(connection, ["$a", "$b", "$c"])}
        assert found == {"$a": stored(row("$a")), "$b": stored(refused)}
        assert await fetch_graph_entries(connection, "!room", ["$a", "$b"]) == [GraphEntry("$a", 1, ["$x", "$y"])]


async def test_only_outliers_are_overwritten(database: Database) -> None:
    """Writing another event again changes nothing."""
    async with database.transaction() as connection:
        await insert_room(connection, ROOM)
        await write_events(connection, [outlier("$a"), row("$b")])
        await write_events(connection, [outlier("$a", verdict="rejected", refusal="no")])
        await write_events(connection, [row("$b")._replace(state_before=6, state_after=6)])
        await write_events(connection, [outlier("$b")])
        found = {one.event_id: one for one in await fetch_events(connection, ["$a", "$b"])}
        assert found == {"$a": stored(outlier("$a")), "$b": stored(row("$b"))}
        await write_events(connection, [row("$a")])
        assert await fetch_events(connection, ["$a"]) == [stored(row("$a"))]


async def test_auth_chains_are_walked_in_the_database(database: Database) -> None:
    """Each event occurs once, however many paths lead to it; unknown events are left out."""
    rows = [row("$a"), row("$b", auth=("$a",)), row("$c", auth=("$a", "$b")), row("$d", auth=("$c", "$gone"))]
    async with database.transaction() as connection:
        await write_events(connection, rows)
        edges = await fetch_auth_edges(connection, ["$d", "$b"])
    assert sorted(edges) == [("$a", []), ("$b", ["$a"]), ("$c", ["$a", "$b"]), ("$d", ["$c", "$gone"])]


async def test_ancestors_are_newest_first_without_outliers(database: Database) -> None:
    """From the greatest depth of the given events."""
    rows = [row(f"${depth}", depth, prev=(f"${depth - 1}",)) for depth in range(1, 6)]
    async with database.transaction() as connection:
        await write_events(connection, [*rows, outlier("$o")])
        found = await fetch_ancestors(connection, "!room", ["$4", "$2"], 3)
        assert await fetch_ancestors(connection, "!other", ["$4"], 3) == []
    assert found == [GraphEntry("$4", 4, ["$3"]), GraphEntry("$3", 3, ["$2"]), GraphEntry("$2", 2, ["$1"])]


async def test_the_event_nearest_to_a_time(database: Database) -> None:
    """In either direction, including the time itself; a time may be any integer."""
    async with database.transaction() as connection:
        await write_events(connection, [row("$1", 1), row("$2", 2), outlier("$o", origin_server_ts=15)])
        assert await find_nearest(connection, "!room", 11, "forwards") == ("$2", 20)
        assert await find_nearest(connection, "!room", 20, "forwards") == ("$2", 20)
        assert await find_nearest(connection, "!room", 19, "backwards") == ("$1", 10)
        assert await find_nearest(connection, "!room", -(10**30), "backwards") is None
        assert await find_nearest(connection, "!room", 10**30, "backwards") == ("$2", 20)


async def test_backward_extremities(database: Database) -> None:
    """Events with a missing or outlier `prev_events` entry, newest first."""
    rows = [row("$2", 2, prev=("$o",)), row("$3", 3, prev=("$2",)), row("$4", 4, prev=("$3", "$unknown"))]
    async with database.transaction() as connection:
        await write_events(connection, [*rows, row("$1", 1), outlier("$o", prev_events=["$unknown"])])
        assert await fetch_backward_extremities(connection, "!room", 10) == ["$4", "$2"]
        assert await fetch_backward_extremities(connection, "!room", 1) == ["$4"]
        assert await fetch_backward_extremities(connection, "!other", 10) == []


async def test_the_least_depth(database: Database) -> None:
    """Without outliers."""
    async with database.transaction() as connection:
        await write_events(connection, [row("$2", 2), row("$3", 3), outlier("$o", depth=1)])
        assert await fetch_least_depth(connection, "!room") == 2
        assert await fetch_least_depth(connection, "!other") == 0
