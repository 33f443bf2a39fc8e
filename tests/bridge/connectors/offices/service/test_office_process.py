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


async def test_it_takes_its_lock_again(database: Database) -> None:
    """When Postgres has let go of it; nothing is done while it has it."""
    one, other = OfficeProcess(database), OfficeProcess(database)
    await one.start()
    assert not await one.keep()
    await one._lease.close()
    assert await other.ended([one.name]) == {one.name}
    assert await one.keep()
    assert await other.ended([one.name]) == frozenset()
    assert not await one.keep()
    # Something else has opened a session since: the lock is not in that one.
    await one._lease.close()
    async with one.beginning():
        assert await one.keep()
    assert await other.ended([one.name]) == frozenset()
    await one.close()
    await other.close()


async def test_who_serves_beside_whom(database: Database) -> None:
    """Those that hear each other, or one that hears nobody."""
    alone, together, beside = (OfficeProcess(database) for _ in range(3))
    assert await together.serves(with_others=True)
    assert await beside.serves(with_others=True)
    assert not await alone.serves(with_others=False)
    for one in (together, beside, alone):
        await one.close()
    assert await alone.serves(with_others=False)
    assert not await together.serves(with_others=True)
    await alone.close()
    await together.close()
