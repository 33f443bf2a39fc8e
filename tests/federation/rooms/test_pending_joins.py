"""Rooms on their way, and what waits for them."""

import asyncio

import pytest

from federation.rooms.pending_joins import Arrivals


async def test_what_comes_of_a_room_on_its_way_waits() -> None:
    """Until it is there, or not to be had; nobody else waits."""
    arrivals = Arrivals()
    await arrivals.settled(["!a", "!b"])
    with arrivals.expected("!a"), arrivals.expected("!a"):
        waiting = asyncio.create_task(arrivals.settled(["!a", "!b"]))
        await arrivals.settled(["!b"])
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    await arrivals.settled(["!a"])


async def test_also_when_joining_fails() -> None:
    """Then there is nothing to wait for."""
    arrivals = Arrivals()
    with pytest.raises(KeyError), arrivals.expected("!a"):
        raise KeyError
    await arrivals.settled(["!a"])


async def test_nobody_waits_for_ever() -> None:
    """Whoever sends it gives up at some time, and comes again."""
    arrivals = Arrivals(patience=0.01)
    with arrivals.expected("!a"):
        await arrivals.settled(["!a"])
