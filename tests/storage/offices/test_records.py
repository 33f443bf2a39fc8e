"""Records of offices, and the messages that show them."""

import asyncio
import json
from typing import Any

from storage.database import Database
from storage.offices.records import (
    NOT_ACCEPTED,
    NewRecord,
    assign_messages,
    fetch_answer,
    fetch_call,
    fetch_call_event,
    fetch_present_members,
    fetch_present_members_of_office,
    fetch_unanswered,
    fetch_unsent,
    insert_records,
    is_unanswered,
    list_calls,
    lock_office,
    mark_sent,
    prune,
)


def record(kind: str, call_id: str | None = None, office_id: str = "a", at_ms: int = 1, **content: Any) -> NewRecord:
    return NewRecord(office_id, kind, call_id, json.dumps(content).encode(), at_ms)


async def test_unsent_records_are_fetched_in_order(database: Database) -> None:
    """Until their message is sent; a message that the room does not accept is not retried."""
    async with database.transaction() as connection:
        await insert_records(connection, [record("called", f"{n}", n=n) for n in range(5)])
        rows = await fetch_unsent(connection, 3)
        assert [row.call_id for row in rows] == ["0", "1", "2"]
        await assign_messages(connection, {rows[0].position: rows[0].position, rows[2].position: rows[0].position})
        decided = [row.message_position for row in await fetch_unsent(connection, 3)]
        assert decided == [rows[0].position, None, rows[0].position]
        await mark_sent(connection, [rows[0].position, rows[2].position], "$event")
        await mark_sent(connection, [rows[1].position], NOT_ACCEPTED)
        assert [row.call_id for row in await fetch_unsent(connection, 10)] == ["3", "4"]
        assert await fetch_call_event(connection, "0") == "$event"
        assert await fetch_call_event(connection, "1") is None
        assert await fetch_call_event(connection, "3") is None
        [call] = await fetch_call(connection, "3")
        assert json.loads(call.body) == {"n": 3}
        assert await fetch_call(connection, "9") == []


async def test_unsent_records_are_grouped_by_office(database: Database) -> None:
    """The office with the oldest record first, each in order, so that many records of one office fit into one
    message."""
    async with database.transaction() as connection:
        await insert_records(
            connection, [record("called", f"{office_id}{n}", office_id) for n in range(3) for office_id in "bac"]
        )
        rows = await fetch_unsent(connection, 5)
        assert [row.call_id for row in rows] == ["b0", "b1", "b2", "a0", "a1"]
        await mark_sent(connection, [row.position for row in rows], "$event")
        assert [row.call_id for row in await fetch_unsent(connection, 5)] == ["c0", "c1", "c2", "a2"]


async def test_present_members_have_joined_and_not_left(database: Database) -> None:
    """For each office separately."""
    async with database.transaction() as connection:
        await insert_records(
            connection,
            [
                record("joined", name="boss", role="agent"),
                record("joined", name="hands", role="computer"),
                record("joined", office_id="b", name="hands", role="computer"),
                record("left", name="hands"),
                record("joined", name="eyes", role="computer"),
                record("left", name="eyes"),
                record("joined", name="eyes", role="computer"),
            ],
        )
        there = [(one.office_id, json.loads(one.body)["name"]) for one in await fetch_present_members(connection)]
    assert sorted(there) == [("a", "boss"), ("a", "eyes"), ("b", "hands")]


async def test_calls_are_listed_with_their_answers(database: Database) -> None:
    """The newest first, page by page, of one office or of all."""
    async with database.transaction() as connection:
        await insert_records(
            connection,
            [
                record("called", "1", n=1),
                record("called", "2", "b", n=2),
                record("answered", "1", at_ms=9, ok=True),
                record("called", "3", n=3),
            ],
        )
        calls = await list_calls(connection, None, None, 10)
        assert [(call.call_id, call.answered_at) for call in calls] == [("3", None), ("2", None), ("1", 9)]
        assert calls[2].answer is not None
        assert json.loads(calls[2].answer) == {"ok": True}
        assert await fetch_answer(connection, "1") == calls[2].answer
        assert await fetch_answer(connection, "2") is None
        assert [call.call_id for call in await list_calls(connection, "a", None, 10)] == ["3", "1"]
        assert [call.call_id for call in await list_calls(connection, None, calls[0].position, 1)] == ["2"]


async def test_unanswered_calls_are_found(database: Database) -> None:
    """The oldest first, in all offices."""
    async with database.transaction() as connection:
        await insert_records(
            connection,
            [
                record("called", "1", n=1),
                record("called", "2", "b", n=2),
                record("called", "3", n=3),
                record("answered", "1"),
                record("joined", name="boss"),
            ],
        )
        found = await fetch_unanswered(connection)
        assert [await is_unanswered(connection, call_id) for call_id in ("1", "2")] == [False, True]
    assert [(office_id, call_id, json.loads(body)) for office_id, call_id, body in found] == [
        ("b", "2", {"n": 2}),
        ("a", "3", {"n": 3}),
    ]


async def test_old_sent_records_are_pruned(database: Database) -> None:
    """The joins of present members are kept, however old they are."""
    async with database.transaction() as connection:
        await insert_records(
            connection, [record("joined", name="boss"), *(record("called", f"{n}", at_ms=n) for n in range(5))]
        )
        rows = await fetch_unsent(connection, 10)
        await mark_sent(connection, [row.position for row in rows[:-1]], "$x")
        assert await prune(connection, 10, 3) == 3
        assert await prune(connection, 10, 3) == 1
        assert await prune(connection, 10, 3) == 0
        assert [call.call_id for call in await list_calls(connection, None, None, 10)] == ["4"]
        assert len(await fetch_present_members(connection)) == 1
        await insert_records(connection, [record("left", name="boss", at_ms=2)])
        [_, left] = await fetch_unsent(connection, 10)
        await mark_sent(connection, [left.position], "$x")
        for _ in range(2):
            assert await prune(connection, 10, 1) == 1
            assert await fetch_present_members(connection) == []
        assert await prune(connection, 10, 1) == 0


async def test_present_members_of_one_office(database: Database) -> None:
    """In the order in which they joined; a member that joined again counts from then."""
    async with database.transaction() as connection:
        moves = [
            ("joined", "hands", "a"), ("joined", "boss", "a"), ("joined", "feet", "b"),
            ("left", "hands", "a"), ("joined", "hands", "a"), ("joined", "eyes", "a"), ("left", "eyes", "a"),
        ]  # fmt: skip
        content = [record(kind, office_id=office, name=name) for kind, name, office in moves]
        await insert_records(connection, content)
        there = [json.loads(one.body)["name"] for one in await fetch_present_members_of_office(connection, "a")]
        assert there == ["boss", "hands"]
        everywhere = [(one.office_id, json.loads(one.body)["name"]) for one in await fetch_present_members(connection)]
        assert everywhere == [("a", "boss"), ("b", "feet"), ("a", "hands")]
        positions = [one.position for one in await fetch_present_members(connection)]
        assert positions == sorted(positions)
        assert await fetch_present_members_of_office(connection, "c") == []


async def test_an_office_has_one_holder_at_a_time(database: Database) -> None:
    """Until its transaction ends; other offices are not affected."""
    began = asyncio.Event()

    async def wait() -> None:
        async with database.transaction() as other:
            await lock_office(other, "b")
            began.set()
            await lock_office(other, "a")

    async with database.transaction() as one:
        await lock_office(one, "a")
        waiting = asyncio.create_task(wait())
        await began.wait()
        await asyncio.sleep(0.05)
        assert not waiting.done()
    async with asyncio.timeout(5):
        await waiting
