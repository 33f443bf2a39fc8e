"""Rooms that are being joined, and waiting for them."""

import asyncio

import pytest

from federation.rooms.pending_joins import PendingJoins


async def test_events_of_a_room_wait_for_its_joins() -> None:
    """Until all of them have ended; other rooms do not wait."""
    pending_joins = PendingJoins()
    await pending_joins.wait_for(["!a", "!b"])
    with pending_joins.joining("!a"), pending_joins.joining("!a"):
        waiting = asyncio.create_task(pending_joins.wait_for(["!a", "!b"]))
        await pending_joins.wait_for(["!b"])
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    await pending_joins.wait_for(["!a"])


async def test_a_failed_join_ends_the_wait() -> None:
    """There is nothing left to wait for."""
    pending_joins = PendingJoins()
    with pytest.raises(KeyError), pending_joins.joining("!a"):
        raise KeyError
    await pending_joins.wait_for(["!a"])


async def test_the_wait_is_limited() -> None:
    """The sending server retries after its own timeout."""
    pending_joins = PendingJoins(timeout=0.01)
    with pending_joins.joining("!a"):
        await pending_joins.wait_for(["!a"])
