"""By what other processes know that this one is alive."""

import asyncio

from bridge.connectors.offices.cluster.process import OfficeProcess
from storage.database import Database
from tests.support.postgres import as_another_process, end_sessions


def process_on(database: Database) -> OfficeProcess:
    return OfficeProcess(as_another_process(database))


async def test_a_process_is_alive_until_it_ends(database: Database) -> None:
    """However it ends. What nobody was ever called has ended."""
    one, other = process_on(database), process_on(database)
    assert one.name != other.name
    await one.start()
    await other.start()
    names = [one.name, other.name, "", "somebody"]
    assert await other.ended(names) == {"", "somebody"}
    assert await one.ended(names) == {"", "somebody"}
    await one.close()
    assert await other.ended(names) == {"", "somebody", one.name}
    assert await other.ended(names) == {"", "somebody", one.name}
    await other.close()


async def test_one_begins_after_the_other(database: Database) -> None:
    one, other = process_on(database), process_on(database)
    order: list[str] = []

    async def begin() -> None:
        async with other.beginning():
            order.append("other")

    await other.start()
    async with one.beginning():
        beginning = asyncio.create_task(begin())
        await other.ended(["somebody"])
        assert not beginning.done()
        order.append("one")
    await beginning
    assert order == ["one", "other"]
    await other.close()


async def test_it_takes_its_lease_again(database: Database) -> None:
    """When Postgres has ended the session; nothing is done while it has it."""
    one, other = process_on(database), process_on(database)
    await one.start()
    assert not await one.keep()
    await end_sessions(database)
    while not await one.keep():
        await asyncio.sleep(0.01)
    assert await other.ended([one.name]) == frozenset()
    assert not await one.keep()
    await one.close()


async def test_who_serves_beside_whom(database: Database) -> None:
    """Those that hear each other, or one that hears nobody."""
    alone, together, beside = (process_on(database) for _ in range(3))
    assert await together.serves(with_others=True)
    assert await beside.serves(with_others=True)
    assert not await alone.serves(with_others=False)
    for one in (together, beside, alone):
        await one.close()
    assert await alone.serves(with_others=False)
    assert not await together.serves(with_others=True)
    await alone.close()
