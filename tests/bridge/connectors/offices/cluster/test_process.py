"""How a process knows whether another one is alive."""

import asyncio

from bridge.connectors.offices.cluster.process import OfficeProcess
from storage.database import Database
from tests.support.postgres import as_another_process, end_sessions


def process_on(database: Database) -> OfficeProcess:
    return OfficeProcess(as_another_process(database))


async def test_a_process_is_alive_until_it_ends(database: Database) -> None:
    """In whatever way it ends. A name that no process has counts as ended."""
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


async def test_processes_clean_up_one_at_a_time(database: Database) -> None:
    one, other = process_on(database), process_on(database)
    order: list[str] = []

    async def begin() -> None:
        async with other.cleanup_lock():
            order.append("other")

    await other.start()
    async with one.cleanup_lock():
        beginning = asyncio.create_task(begin())
        await other.ended(["somebody"])
        assert not beginning.done()
        order.append("one")
    await beginning
    assert order == ["one", "other"]
    await other.close()


async def test_a_lost_lease_is_renewed(database: Database) -> None:
    """Postgres has ended the session. While the lease is held, there is nothing to renew."""
    one, other = process_on(database), process_on(database)
    await one.start()
    assert not await one.renew()
    await end_sessions(database)
    while not await one.renew():
        await asyncio.sleep(0.01)
    assert await other.ended([one.name]) == frozenset()
    assert not await one.renew()
    await one.close()


async def test_processes_serve_offices_together_only_with_a_broker(database: Database) -> None:
    """Several connected processes, or a single one without a broker."""
    alone, together, other = (process_on(database) for _ in range(3))
    assert await together.claim_serving(with_others=True)
    assert await other.claim_serving(with_others=True)
    assert not await alone.claim_serving(with_others=False)
    for one in (together, other, alone):
        await one.close()
    assert await alone.claim_serving(with_others=False)
    assert not await together.claim_serving(with_others=True)
    await alone.close()
