"""Rooms on their way, and what waits for them."""

import asyncio

import pytest

from federation.rooms.pending_joins import PendingJoins


async def test_what_comes_of_a_room_on_its_way_waits() -> None:
    """Until it is there, or not to be had; nobody else waits."""
    pending_joins = PendingJoins()
    await pending_joins.wait_for(["!a", "!b"])
    with pending_joins.joining("!a"), pending_joins.joining("!a"):
        waiting = asyncio.create_task(pending_joins.wait_for(["!a", "!b"]))
        await pending_joins.wait_for(["!b"])
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    await pending_joins.wait_for(["!a"])


async def test_also_when_joining_fails() -> None:
    """Then there is nothing to wait for."""
    pending_joins = PendingJoins()
    with pytest.raises(KeyError), pending_joins.joining("!a"):
        raise KeyError
    await pending_joins.wait_for(["!a"])


async def test_nobody_waits_for_ever() -> None:
    """Whoever sends it gives up at some time, and comes again."""
    pending_joins = PendingJoins(timeout=0.01)
    with pending_joins.joining("!a"):
        await pending_joins.wait_for(["!a"])
