"""Queries for operators."""

from storage.database import Connection, Database
from storage.federation.outbox import queue_edu, queue_pdus
from storage.rooms.events import EventRow, write_events
from storage.rooms.inspection import (
    MAX_DEPTH,
    JoinedCounts,
    QueuedEduSummary,
    QueuedPduSummary,
    Reference,
    StateEntry,
    count_joined,
    count_memberships,
    count_rooms_by_server,
    fetch_graph_nodes,
    fetch_state_entries,
    fetch_verdicts,
    find_references,
    list_events_with_prefix,
    list_first_edus,
    list_first_pdus,
    list_latest_events,
    list_members_of_server,
    list_outside_members,
    list_room_ids,
    list_rooms_with_prefix,
)
from storage.rooms.outside_memberships import OutsideMembership, write_membership
from storage.rooms.rooms import CurrentStateRow, RoomRow, insert_room, write_current_state
from storage.rooms.stream import append


def event(event_id: str, depth: int, *prev: str, auth: tuple[str, ...] = (), room: str = "!a") -> EventRow:
    return EventRow(
        event_id, room, "m.room.message", None, "@x:one", depth, depth * 10, list(prev), list(auth),
        "accepted", None, 5, 5, b"{}",
    )  # fmt: skip


def member(room: str, user: str, membership: str) -> CurrentStateRow:
    return CurrentStateRow(room, "m.room.member", user, "$m", membership, user.partition(":")[2])


async def insert_rooms(connection: Connection, *room_ids: str) -> None:
    for room_id in room_ids:
        await insert_room(connection, RoomRow(room_id, "12", 1, [], 1))


async def test_ids_are_found_by_prefix(database: Database) -> None:
    """Compared by bytes; no character has a special meaning."""
    async with database.transaction() as connection:
        await insert_rooms(connection, "!ab", "!abc", "!abé", "!ab\U0010fffe", "!ac", "!a%", "!b")
        assert await list_rooms_with_prefix(connection, "!ab", 9) == ["!ab", "!abc", "!abé", "!ab\U0010fffe"]
        assert await list_rooms_with_prefix(connection, "!ab", 2) == ["!ab", "!abc"]
        assert await list_rooms_with_prefix(connection, "!a%", 9) == ["!a%"]
        assert await list_room_ids(connection, "!abé", 2) == ["!ab\U0010fffe", "!ac"]
        assert await list_room_ids(connection, "", 2) == ["!a%", "!ab"]
        await write_events(connection, [event("$abc", 1), event("$abd", 1), event("$b", 1)])
        assert await list_events_with_prefix(connection, "$ab", 9) == ["$abc", "$abd"]


async def test_members_are_counted(database: Database) -> None:
    """Joined members, local members and servers, and all memberships."""
    async with database.transaction() as connection:
        await write_current_state(
            connection,
            [
                member("!a", "@x:one", "join"),
                member("!a", "@y:one", "join"),
                member("!a", "@z:two", "join"),
                member("!a", "@w:two", "ban"),
                member("!a", "@v:one", "invite"),
                member("!b", "@z:two", "join"),
                member("!c", "@z:two", "leave"),
                CurrentStateRow("!a", "m.room.name", "", "$n", None, None),
                CurrentStateRow("!a", "m.room.name", "odd", "$o", None, None),
                CurrentStateRow("!b", "m.room.topic", "", "$t", None, None),
            ],
        )
        assert await count_joined(connection, ["!a", "!b", "!c"], "one") == {
            "!a": JoinedCounts(3, 2, 2),
            "!b": JoinedCounts(1, 0, 1),
        }
        assert await count_memberships(connection, "!a") == {"join": 3, "ban": 1, "invite": 1}
        assert await count_rooms_by_server(connection) == {"one": 1, "two": 2}
        assert await fetch_state_entries(connection, ["!a", "!b"], ["m.room.name"]) == [
            StateEntry("!a", "m.room.name", "", "$n")
        ]
        assert await list_members_of_server(connection, "!a", "one", ["join", "invite"], "@v:one", 9) == [
            ("@x:one", "join"),
            ("@y:one", "join"),
        ]
        assert await list_members_of_server(connection, "!a", "one", ["join"], "", 1) == [("@x:one", "join")]


async def test_outside_memberships_are_found_by_room(database: Database) -> None:
    """For making all local users leave."""
    async with database.transaction() as connection:
        for user in ("@x:one", "@y:one"):
            await write_membership(
                connection, OutsideMembership("!far", user, "invite", "12", "$i", "@z:two", "two", b"{}", b"[]", 1)
            )
        assert await list_outside_members(connection, "!far", "@x:one", 9) == [("@y:one", "invite")]
        assert await list_outside_members(connection, "!far", "", 1) == [("@x:one", "invite")]


async def test_the_graph_is_read_from_its_head(database: Database) -> None:
    """The deepest events first, without outliers."""
    rejected = event("$c", 3, "$b")._replace(verdict="rejected", refusal="rule 5: no")
    outlier = event("$o", 9)._replace(state_before=None, state_after=None)
    async with database.transaction() as connection:
        await write_events(connection, [event("$a", 1), event("$b", 2, "$a", auth=("$a",)), rejected, outlier])
        nodes = await fetch_graph_nodes(connection, "!a", MAX_DEPTH, 9)
        assert [(one.event_id, one.verdict, one.refusal) for one in nodes] == [
            ("$c", "rejected", "rule 5: no"),
            ("$b", "accepted", None),
            ("$a", "accepted", None),
        ]
        assert [one.event_id for one in await fetch_graph_nodes(connection, "!a", 2, 1)] == ["$b"]
        assert await fetch_verdicts(connection, ["$a", "$c", "$o", "$?"]) == {
            "$a": ("accepted", False),
            "$c": ("rejected", False),
            "$o": ("accepted", True),
        }
        await append(connection, [("!a", "$a", "timeline"), ("!a", "$s", "state"), ("!a", "$b", "timeline")])
        assert await list_latest_events(connection, "!a", 9) == ["$b", "$a"]


async def test_the_search_for_references_is_bounded(database: Database) -> None:
    """References are not indexed."""
    async with database.transaction() as connection:
        await write_events(
            connection,
            [
                event("$a", 1),
                event("$b", 2, "$a", auth=("$a",)),
                event("$c", 3, "$b", auth=("$a",)),
                event("$d", 4, "$c"),
                event("$other", 2, "$a", room="!b"),
            ],
        )
        found = await find_references(connection, "!a", "$a", 1, searched=10, limit=10)
        assert found == [Reference("$b", True, True), Reference("$c", False, True)]
        assert await find_references(connection, "!a", "$a", 1, searched=2, limit=10) == found[:1]
        assert await find_references(connection, "!a", "$a", 1, searched=10, limit=1) == found[:1]


async def test_queued_entries_are_listed_oldest_first(database: Database) -> None:
    """Across rooms, including entries whose event is not stored."""
    async with database.transaction() as connection:
        await write_events(connection, [event("$a", 1)])
        pdus = await queue_pdus(connection, [("two", "!z", "$gone"), ("two", "!a", "$a"), ("three", "!a", "$a")], 7)
        edus = await queue_edu(connection, ["two"], "m.direct_to_device", b"{}", 8)
        assert await list_first_pdus(connection, "two", 9) == [
            QueuedPduSummary(pdus[0].position, "!z", "$gone", 7, None),
            QueuedPduSummary(pdus[1].position, "!a", "$a", 7, "m.room.message"),
        ]
        assert len(await list_first_pdus(connection, "two", 1)) == 1
        assert await list_first_edus(connection, "two", 9) == [
            QueuedEduSummary(edus[0].position, "m.direct_to_device", 8)
        ]
