"""The session that decides which process sends to whom."""

import asyncio
import contextlib
import gc
from itertools import count

import pytest

from federation.service.outbox_lease import LeaseLost, OutboxLease
from storage import outbox
from storage.database import Database, connect_once
from tests.support.lingering import lingering

PEER = "peer.test"


class Told:
    """What a lease says to its owner."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.lost = asyncio.Event()


def lease(database: Database) -> tuple[OutboxLease, Told]:
    told = Told()
    return OutboxLease(database.address, told.heard.put_nowait, told.lost.set), told


async def test_one_process_at_a_time_has_the_lock(database: Database) -> None:
    """Until it gives it back, or closes its session."""
    (one, _), (two, _) = lease(database), lease(database)
    await asyncio.gather(one.open(), two.open())
    try:
        session = await one.try_lock(PEER)
        assert session is not None
        assert await two.try_lock(PEER) is None
        await one.unlock(PEER, session)
        assert await two.try_lock(PEER) is not None
        await two.close()
        assert await one.try_lock(PEER) is not None
    finally:
        await asyncio.gather(one.close(), two.close())


async def test_a_session_that_ends_is_noticed(database: Database) -> None:
    """Its locks are gone with it, and a new one starts without any."""
    mine, told = lease(database)
    await mine.open()
    admin = await connect_once(database.address)
    try:
        session = await mine.try_lock(PEER)
        assert session is not None
        await admin.execute("SELECT pg_terminate_backend($1)", session.get_server_pid())
        await told.lost.wait()
        assert not mine.is_open
        with pytest.raises(LeaseLost):
            await mine.try_lock(PEER)
        await mine.open()
        assert await mine.try_lock(PEER) is not None
        # What the lost session had is not given back in the name of the new one.
        await mine.unlock(PEER, session)
        assert not await outbox.try_lock_destination(admin, PEER)
    finally:
        await admin.close()
        await mine.close()


async def test_what_other_processes_queue_is_heard(database: Database) -> None:
    """Closing is no loss."""
    mine, told = lease(database)
    await mine.open()
    async with database.transaction() as connection:
        await outbox.notify(connection, "hello")
    assert await told.heard.get() == "hello"
    await mine.close()
    await mine.close()
    assert not told.lost.is_set()


async def test_whoever_stops_waiting_for_a_session_leaves_none_behind(database: Database) -> None:
    """At whatever moment: a connection that nobody closes would be reported here."""
    mine, _ = lease(database)
    for rounds in count():
        opening = asyncio.create_task(mine.open())
        for _ in range(rounds):
            await asyncio.sleep(0)
        if opening.done():
            break
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
    assert mine.is_open
    await mine.close()
    gc.collect()


async def test_a_session_of_which_nothing_more_comes_is_lost(database: Database) -> None:
    """The server has said its last word in it, and the connection is there for a moment more."""
    async with lingering(database) as link:
        one = OutboxLease(link.address, lambda payload: None, lambda: None)
        await one.open()
        session = await one.try_lock(PEER)
        assert session is not None
        await link.end_holders()
        await one.unlock(PEER, session)
        with pytest.raises(LeaseLost):
            await one.try_lock("b.test")
        await one.close()
