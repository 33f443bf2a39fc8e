"""Writing records in batches."""

import asyncio

import pytest

from bridge.connectors.offices.rooms.call_log import CallLogWriter
from storage.database import Database
from storage.offices.records import NewRecord, fetch_unsent


def record(number: int, office_id: str = "a") -> NewRecord:
    return NewRecord(office_id, "called", f"{number}", b"{}", number)


async def test_a_written_record_is_committed(database: Database) -> None:
    """Records keep their order, however many are pending."""
    writer = CallLogWriter(database)
    await writer.write(record(0))
    await asyncio.gather(*(writer.write(record(number)) for number in range(1, 500)))
    async with database.transaction(readonly=True) as connection:
        rows = await fetch_unsent(connection, 1_000)
    assert [row.at_ms for row in rows] == list(range(500))
    await writer.close()


async def test_a_failure_is_reported_to_the_waiting_callers(database: Database) -> None:
    """And does not affect later records."""
    writer = CallLogWriter(database)
    with pytest.raises(Exception, match="office_records_kind_check"):
        await writer.write(record(1)._replace(kind="unheard of"))
    await writer.write(record(2))
    await writer.close()


async def test_cancelling_one_caller_does_not_affect_others(database: Database) -> None:
    writer = CallLogWriter(database)
    waiting = [asyncio.create_task(writer.write(record(number))) for number in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.gather(waiting[0], waiting[2])
    await writer.close()
    async with database.transaction(readonly=True) as connection:
        assert len(await fetch_unsent(connection, 10)) == 3
