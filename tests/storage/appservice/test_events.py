"""Transactions and events from the homeserver."""

from datetime import timedelta

from storage.appservice.events import (
    NewEvent,
    NewTransaction,
    Redaction,
    fetch_events,
    fetch_known_ids,
    fetch_sent,
    prune_events,
    prune_transactions,
    receive_transaction,
)
from storage.database import Connection, Database
from storage.rooms import stream as consumers
from storage.rooms import stream as room_stream
from storage.rooms.events import fetch_redactions, insert_redactions
from storage.rooms.stream import Kind

ROOM = "!kitchen:a"
NOBODY_WAITS = timedelta(seconds=-1)


async def write(
    connection: Connection,
    event_id: str,
    *,
    room_id: str = ROOM,
    member: str | None = None,
    kind: Kind = "timeline",
    mark: str | None = None,
) -> int:
    event = NewEvent(event_id, room_id, kind, member, mark, b"{}")
    received = await receive_transaction(connection, NewTransaction("palaver", event_id, bytes(32), [event]))
    assert received.is_new
    (position,) = received.positions
    assert position is not None
    return position


async def test_a_transaction_is_identified_by_id_and_digest(database: Database) -> None:
    """For each registration, the last transaction with an id counts."""
    async with database.transaction() as connection:
        first, second = (NewTransaction("palaver", "1", digest * 32) for digest in (b"a", b"b"))
        assert await receive_transaction(connection, first) == (True, (), False)
        assert await receive_transaction(connection, first) == (False, (), False)
        assert (await receive_transaction(connection, second)).is_new
        assert not (await receive_transaction(connection, second)).is_new
        assert (await receive_transaction(connection, second._replace(registration="other"))).is_new
        assert await prune_transactions(connection, timedelta(days=1)) == 0
        assert await prune_transactions(connection, NOBODY_WAITS) == 2


async def test_events_are_found_by_id(database: Database) -> None:
    """Unknown ids are left out."""
    async with database.transaction() as connection:
        await write(connection, "$a")
        assert await fetch_known_ids(connection, ["$a", "$b"]) == {"$a"}
        found = await fetch_events(connection, ["$a", "$b"])
        assert list(found) == ["$a"]
        assert found["$a"] == ("$a", b"{}", False, False)


async def test_new_events_are_appended_in_order(database: Database) -> None:
    """Events received before do not change, and get no position."""
    async with database.transaction() as connection:
        first = await write(connection, "$b")
        rows = [NewEvent(name, ROOM, "timeline", None, None, b"{}") for name in ("$c", "$b", "$a")]
        received = await receive_transaction(connection, NewTransaction("palaver", "1", bytes(32), rows))
        assert received == (True, [first + 1, None, first + 2], False)
    stream = await database.read(lambda one: room_stream.read(one, 0, 10))
    assert stream == [
        (first, ROOM, "$b", "timeline"),
        (first + 1, ROOM, "$c", "timeline"),
        (first + 2, ROOM, "$a", "timeline"),
    ]


async def test_a_redacted_event_is_reported(database: Database) -> None:
    """The redaction was received before, or in the same transaction."""
    async with database.transaction() as connection:
        one, two = (NewEvent(name, ROOM, "timeline", None, None, b"{}") for name in ("$1", "$2"))
        requested = [Redaction("$1", "$r", ROOM), Redaction("$2", "$s", ROOM)]
        with_it = NewTransaction("palaver", "1", bytes(32), [one], [], requested)
        assert (await receive_transaction(connection, with_it)).some_are_redacted
        after = NewTransaction("palaver", "2", bytes(32), [two])
        assert (await receive_transaction(connection, after)).some_are_redacted
        assert await fetch_redactions(connection, ["$1", "$2"]) == [("$1", "$r"), ("$2", "$s")]


async def test_local_events_are_found_by_mark(database: Database) -> None:
    """The oldest one in the room."""
    async with database.transaction() as connection:
        await write(connection, "$b", mark="one")
        await write(connection, "$a", mark="one")
        await write(connection, "$other", mark="two")
        await write(connection, "$elsewhere", mark="one", room_id="!cellar:a")
        assert await fetch_sent(connection, ROOM, "one") == "$b"
        assert await fetch_sent(connection, "!cellar:a", "one") == "$elsewhere"
        assert await fetch_sent(connection, ROOM, "three") is None


async def test_a_redaction_applies_in_its_room(database: Database) -> None:
    """In whatever order the two were received."""
    async with database.transaction() as connection:
        await insert_redactions(connection, [("$late", "$r"), ("$early", "$r"), ("$elsewhere", "$r")])
        await write(connection, "$early")
        await write(connection, "$r")
        await write(connection, "$late")
        await write(connection, "$elsewhere", room_id="!cellar:a")
        found = await fetch_events(connection, ["$early", "$late", "$elsewhere"])
        assert {name for name, event in found.items() if event.is_redacted} == {"$early", "$late"}


async def test_an_invite_is_superseded_by_a_later_member_event(database: Database) -> None:
    """Of the same user in the same room."""
    async with database.transaction() as connection:
        await write(connection, "$invite", member="@w:a", kind="invite")
        await write(connection, "$other", member="@v:a", kind="invite")
        await write(connection, "$elsewhere", member="@w:a", room_id="!cellar:a", kind="invite")
        await write(connection, "$leave", member="@w:a")
        found = await fetch_events(connection, ["$invite", "$other", "$elsewhere", "$leave"])
        assert [name for name, event in found.items() if event.is_superseded] == ["$invite"]


async def test_an_event_is_pruned_when_all_readers_have_passed_it(database: Database) -> None:
    """Together with its stream entry and its redactions; not before it is old enough."""
    async with database.transaction() as connection:
        first = await write(connection, "$a")
        second = await write(connection, "$b")
        await insert_redactions(connection, [("$x", "$a"), ("$x", "$b")])
    async with database.transaction() as connection:
        assert await prune_events(connection, NOBODY_WAITS) == 0
        term = await consumers.begin_term(connection, "quick", 0)
        await consumers.begin_term(connection, "slow", first)
        await consumers.advance(connection, "quick", term, second)
        assert await prune_events(connection, timedelta(days=1)) == 0
        assert await prune_events(connection, NOBODY_WAITS) == 1
        assert await fetch_known_ids(connection, ["$a", "$b"]) == {"$b"}
        assert await fetch_redactions(connection, ["$x"]) == [("$x", "$b")]
    assert [row.event_id for row in await database.read(lambda one: room_stream.read(one, 0, 10))] == ["$b"]
