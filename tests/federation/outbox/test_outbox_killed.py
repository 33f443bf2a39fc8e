"""An outbox whose process is killed while it sends."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from storage.connect import DatabaseAddress
from storage.database import connect_once
from tests.federation.outbox.receiving_server import ReceivingServer
from tests.support.loopback_server import LoopbackServer

PEER = "peer.test"
COUNT = 400


@contextlib.asynccontextmanager
async def process(address: DatabaseAddress, port: int, count: int) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.federation.sending_process", address.url, PEER, f"127.0.0.1:{port}", str(count)
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def count_events(address: DatabaseAddress) -> int:
    connection = await connect_once(address)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM events"))
    finally:
        await connection.close()


async def test_a_kill_loses_and_duplicates_nothing(database_address: DatabaseAddress) -> None:
    """All committed events arrive in order. Those in flight are repeated in a transaction with the same
    events or more, and the peer recognises them."""
    peer = ReceivingServer()
    async with LoopbackServer(peer).running(None) as server:
        async with process(database_address, server.port, COUNT) as first:
            await peer.until(lambda peer: len(peer.transactions) == 2)
            peer.holds.clear()
            await peer.until(lambda peer: len(peer.transactions) > 2)
            first.kill()
        sent = len(peer.transactions)
        peer.holds.set()
        async with process(database_address, server.port, 0):
            # By then the first process's last transaction is committed or rolled back.
            await peer.until(lambda peer: len(peer.transactions) > sent)
            committed = await count_events(database_address)
            await peer.until_received(committed)
    assert peer.received == [str(number) for number in range(committed)]
    every = [pdu["content"]["body"] for _, body in peer.transactions[sent:] for pdu in body["pdus"]]
    assert every == sorted(every, key=int)
    assert len(set(every)) == len(every), "each process sends an event once"


async def test_the_same_batch_has_the_same_id_after_a_kill(database_address: DatabaseAddress) -> None:
    """The peer has the transaction, but its response was lost."""
    peer = ReceivingServer()
    async with LoopbackServer(peer).running(None) as server:
        peer.holds.clear()
        async with process(database_address, server.port, 1) as first:
            await peer.until(lambda peer: peer.transactions)
            first.kill()
        peer.holds.set()
        async with process(database_address, server.port, 0):
            await peer.until(lambda peer: len(peer.transactions) > 1)
    (first_id, one), (second_id, two) = peer.transactions
    assert second_id == first_id
    assert two["pdus"] == one["pdus"]
