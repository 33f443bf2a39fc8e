"""A process with an outbox, for a test that kills it.

`python -m tests.federation.sending_process URL PEER ADDRESS COUNT` sends COUNT messages in a room, each in
its own database transaction, to PEER in plain HTTP, and runs until it is killed.
"""

import asyncio
import random
import sys
import time

from federation.client.client import FederationClient
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.peer_settings import ConfiguredPeers, PeerSettings
from federation.client.resolver import Resolver
from federation.outbox.outbox import Outbox
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.federation.sending import committed, queue, says, write
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME
from tests.support.rooms import public_room


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def main(url: str, peer: str, address: str, count: int) -> None:
    dns, peers = Dns(), ConfiguredPeers({peer: PeerSettings(address, plain=True)})
    connections = PeerConnections(dns, peers, user_agent="test", authorities=None, blocked=())
    resolver = Resolver(connections, dns, peers)
    client = FederationClient(OWN_NAME, lambda: OWN_KEYS, resolver, connections, may_contact=lambda _: True)
    database = await Database.connect(DatabaseAddress(url))
    outbox = Outbox(OWN_NAME, database, client, now_ms=now_ms, jitter=random.random)
    await outbox.start()
    for pdu in says(public_room("12"), *map(str, range(count))):
        events = committed([pdu], peer)
        async with database.transaction() as connection:
            await write(connection, [pdu])
            places = await queue(connection, outbox, events, now_ms())
        outbox.notify_queued(events, places)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    _, url, peer, address, count = sys.argv
    asyncio.run(main(url, peer, address, int(count)))
