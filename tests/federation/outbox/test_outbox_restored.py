"""A database that was restored from a backup."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from federation.client.client import FederationClient
from federation.outbox.messages import RemovalReason
from storage.backup import dump, restore
from storage.connect import DatabaseAddress
from storage.database import Database
from storage.federation import outbox
from tests.federation.outbox.receiving_server import ReceivingServer
from tests.federation.sending import Sending, says, sending
from tests.support.neighbourhood import Neighbourhood
from tests.support.postgres import pool_on
from tests.support.rooms import public_room

PEER = "peer.test"


@contextlib.asynccontextmanager
async def node(address: DatabaseAddress, client: FederationClient) -> AsyncIterator[Sending]:
    async with pool_on(address) as database, sending(database, client) as us:
        yield us


async def test_after_a_restore_nothing_is_missed(
    database_address: DatabaseAddress, neighbourhood: Neighbourhood, tmp_path: Path
) -> None:
    """Events sent afterwards use positions that other events had before. If they had the same transaction
    id, the peer would drop them as repeated."""
    peer = ReceivingServer()
    server = await neighbourhood.server(peer, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    client = neighbourhood.reach().client
    before, lost, after = says(public_room("11"), "before", "lost", "after")
    async with node(database_address, client) as us:
        await us.send([before], PEER)
        await us.settled(PEER)
    await dump(database_address, tmp_path / "backup")
    async with node(database_address, client) as us:
        first = await epoch(us.database)
        await us.send([lost], PEER)
        await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    await restore(database_address, tmp_path / "backup", replace=True)
    async with node(database_address, client) as us:
        assert await epoch(us.database) != first
        await us.send([after], PEER)
        await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    assert peer.received == ["before", "lost", "after"]
    assert len(set(peer.ids)) == 3


async def epoch(database: Database) -> str:
    async with database.transaction() as connection:
        return await outbox.fetch_epoch(connection)
