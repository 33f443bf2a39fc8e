"""Writes down what happens, many at once."""

import asyncio

import pytest

from bridge.connectors.offices.rooms.call_log import Journal
from storage.database import Database
from storage.offices.records import NewRecord, fetch_unsent


def record(number: int, office_id: str = "a") -> NewRecord:
    return NewRecord(office_id, "called", f"{number}", b"{}", number)


async def test_what_returns_has_been_committed(database: Database) -> None:
    """In the order in which it was given, however many wait."""
    journal = Journal(database)
    await journal.write(record(0))
    await asyncio.gather(*(journal.write(record(number)) for number in range(1, 500)))
    async with database.transaction(readonly=True) as connection:
        rows = await fetch_unsent(connection, 1_000)
    assert [row.at_ms for row in rows] == list(range(500))
    await journal.close()


async def test_what_fails_is_told_to_whoever_waits(database: Database) -> None:
    """And nothing that comes later."""
    journal = Journal(database)
    with pytest.raises(Exception, match="office_records_kind_check"):
        await journal.write(record(1)._replace(kind="unheard of"))
    await journal.write(record(2))
    await journal.close()


async def test_who_stops_waiting_harms_nobody(database: Database) -> None:
    journal = Journal(database)
    waiting = [asyncio.create_task(journal.write(record(number))) for number in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.gather(waiting[0], waiting[2])
    await journal.close()
    async with database.transaction(readonly=True) as connection:
        assert len(await fetch_unsent(connection, 10)) == 3
