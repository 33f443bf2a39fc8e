"""By what other processes know that this one is alive."""

import asyncio

from bridge.connectors.offices.service.office_process import OfficeProcess
from storage.database import Database


async def test_a_process_is_alive_until_it_ends(database: Database) -> None:
    """However it ends: here its session does. What nobody was ever called has ended."""
    one, other = OfficeProcess(database), OfficeProcess(database)
    assert one.name != other.name
    await one.start()
    await other.start()
    names = [one.name, other.name, "", "somebody"]
    assert await other.ended(names) == {"", "somebody"}
    assert await one.ended(names) == {"", "somebody"}
    # As a kill does.
    await one._lease.close()
    assert await other.ended(names) == {"", "somebody", one.name}
    assert await other.ended(names) == {"", "somebody", one.name}
    await one.close()
    await other.close()


async def test_one_begins_after_the_other(database: Database) -> None:
    one, other = OfficeProcess(database), OfficeProcess(database)
    order: list[str] = []

    async def begin() -> None:
        async with other.beginning():
            order.append("other")

    async with one.beginning():
        beginning = asyncio.create_task(begin())
        while other._lease._connection is None:
            await asyncio.sleep(0.01)
        assert not beginning.done()
        order.append("one")
    await beginning
    assert order == ["one", "other"]
    await one.close()
    await other.close()
