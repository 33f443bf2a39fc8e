"""The last use of offices, and archived rooms."""

import json

from storage.database import Connection, Database
from storage.offices import records as office_records
from storage.offices.records import NewRecord
from storage.offices.rooms import (
    ArchivedOffice,
    archive,
    defer_archiving,
    is_used_again,
    list_archived,
    list_offices,
    list_unannounced,
    list_unused,
    list_used_again,
    mark_announced,
    unarchive,
    update_last_use,
)


async def insert_record(connection: Connection, office_id: str, kind: str, at_ms: int, name: str = "boss") -> int:
    """Insert a record and return its position."""
    body = json.dumps({"name": name, "role": "agent"}).encode()
    await office_records.insert_records(connection, [NewRecord(office_id, kind, None, body, at_ms)])
    place: int = await connection.fetchval("SELECT max(position) FROM office_records")
    return place


async def unused(connection: Connection, used_before_ms: int) -> list[str]:
    await update_last_use(connection)
    return [office_id for office_id, _ in await list_unused(connection, used_before_ms, 10)]


async def test_an_office_is_unused_without_members_and_recent_records(database: Database) -> None:
    """Present members keep it in use, however old the records are. The last use is known after records were
    pruned."""
    async with database.transaction() as connection:
        assert await unused(connection, 1_000) == []
        for office_id, at_ms in (("a", 10), ("b", 5), ("c", 7)):
            await insert_record(connection, office_id, "joined", at_ms)
        for office_id, at_ms in (("a", 20), ("b", 30)):
            await insert_record(connection, office_id, "left", at_ms)
        await insert_record(connection, "b", "answered", 40)
        assert await unused(connection, 19) == []
        assert await unused(connection, 20) == ["a"]
        assert await unused(connection, 1_000) == ["a", "b"]
        await connection.execute("DELETE FROM office_records WHERE office_id <> 'c'")
        assert await unused(connection, 1_000) == ["a", "b"]
        await insert_record(connection, "a", "joined", 900)
        assert await unused(connection, 1_000) == ["b"]
        await insert_record(connection, "a", "joined", 901, "hands")
        await insert_record(connection, "a", "left", 902)
        assert await unused(connection, 1_000) == ["b"]
        await defer_archiving(connection, "b", 1_001)
        assert await unused(connection, 1_000) == []
        assert await list_offices(connection) == ["a", "b", "c"]


async def test_an_office_is_archived_unless_it_has_new_records(database: Database) -> None:
    """Once. That its room shows it is recorded separately."""
    async with database.transaction() as connection:
        last = await insert_record(connection, "a", "left", 20)
        await update_last_use(connection)
        assert await archive(connection, "a", last, 100)
        assert not await archive(connection, "a", last, 100)
        assert await list_unannounced(connection, 10) == [ArchivedOffice("a", last, 20)]
        assert await list_archived(connection) == []
        await mark_announced(connection, "a")
        assert await list_unannounced(connection, 10) == []
        assert await list_archived(connection) == ["a"]
        assert await unused(connection, 1_000) == []
        other = await insert_record(connection, "b", "left", 20)
        await update_last_use(connection)
        await insert_record(connection, "b", "joined", 99)
        assert not await archive(connection, "b", other, 100)


async def test_an_office_is_unarchived_by_the_next_join(database: Database) -> None:
    """It is unused again after the same time."""
    async with database.transaction() as connection:
        last = await insert_record(connection, "a", "left", 20)
        await update_last_use(connection)
        await archive(connection, "a", last, 100)
        await mark_announced(connection, "a")
        await insert_record(connection, "a", "answered", 101)
        await insert_record(connection, "b", "joined", 101)
        assert (await list_used_again(connection, 10), await is_used_again(connection, "a")) == ([], False)
        await insert_record(connection, "a", "joined", 102)
        assert (await list_used_again(connection, 10), await is_used_again(connection, "a")) == (["a"], True)
        await unarchive(connection, "a", 102)
        assert await list_used_again(connection, 10) == []
        await insert_record(connection, "a", "left", 103)
        assert await unused(connection, 102) == []
        assert await unused(connection, 103) == ["a"]
