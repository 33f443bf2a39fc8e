"""An outbox whose process is killed in the middle of sending."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from storage.address import DatabaseAddress
from storage.database import connect_once
from tests.federation.service.receiving_server import ReceivingServer
from tests.support.loopback_server import LoopbackServer

PEER = "peer.test"
COUNT = 400


@contextlib.asynccontextmanager
async def process(
    address: DatabaseAddress, port: int, count: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.federation.service.sending_process",
        address.url,
        PEER,
        f"127.0.0.1:{port}",
        str(count),
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


async def test_nothing_is_lost_and_nothing_doubled(database_address: DatabaseAddress) -> None:
    """Killed while a transaction is on its way: it comes again under the same id with the same content, and
    then all that was committed, in its order."""
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
            # By then whatever the first process was about to commit is committed or gone.
            await peer.until(lambda peer: len(peer.transactions) > sent)
            committed = await count_events(database_address)
            await peer.until_received(committed)
    assert peer.transactions[sent] == peer.transactions[sent - 1]
    assert peer.received == [str(number) for number in range(committed)]
    every = [pdu["content"]["body"] for _, body in dict(peer.transactions).items() for pdu in body["pdus"]]
    assert len(every) == committed
