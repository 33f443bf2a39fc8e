"""One after the other."""

import asyncio

from bridge.connectors.offices.service.turns import Turns


async def test_who_came_first_is_first() -> None:
    """In one office; another one is not waited for. Nothing is kept when all are through."""
    turns = Turns()
    order: list[str] = []

    async def act(office_id: str, name: str) -> None:
        async with turns.of(office_id):
            order.append(f"{name} begins")
            await asyncio.sleep(0.01)
            order.append(f"{name} ends")

    await asyncio.gather(act("a", "1"), act("a", "2"), act("b", "3"), act("a", "4"))
    one = [said for said in order if "3" not in said]
    assert one == ["1 begins", "1 ends", "2 begins", "2 ends", "4 begins", "4 ends"]
    assert order.index("3 begins") < order.index("2 begins")
    assert turns._locks == {}


async def test_who_gives_up_waiting() -> None:
    """Holds up nobody."""
    turns = Turns()
    async with turns.of("a"):
        waiting = asyncio.create_task(turns.of("a").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert turns._locks == {}
    async with asyncio.timeout(1), turns.of("a"):
        pass
