"""Agent peers that operators have added."""

import asyncio

import asyncpg
import pytest

from storage.agents.peers import PeerRow, delete_peer, list_peers, lock_peers, write_peer
from storage.database import Database

NOW = 1_800_000_000_000
TIMEOUT = 30.0


def added(node_id: str, url: str | None = "http://a:1", at: int = NOW) -> PeerRow:
    networks = ["192.0.2.1/32", "fd00::/8"]
    return PeerRow(node_id, True, "cis-1.1", url, ["default", "team-a"], networks, b"k" * 32, True, "PEM", at, at)


def overridden(node_id: str, *, trusted: bool) -> PeerRow:
    return PeerRow(node_id, trusted, None, None, None, None, None, None, None, NOW, NOW)


async def test_peers_are_stored(database: Database) -> None:
    """Added peers, and configured peers whose trust was changed, ordered by name."""
    minimal = PeerRow("c.test", True, "matrix", None, None, [], None, False, None, NOW, NOW)
    rows = [added("a.test"), overridden("b.test", trusted=False), minimal]
    async with database.transaction() as connection:
        for row in reversed(rows):
            await write_peer(connection, row)
        assert await list_peers(connection) == rows


async def test_a_peer_is_replaced_and_deleted(database: Database) -> None:
    """`added_at` is kept. Deleting a peer that does not exist is no error."""
    async with database.transaction() as connection:
        await write_peer(connection, added("a.test"))
        await write_peer(connection, added("a.test", None, NOW + 5))
        assert await list_peers(connection) == [added("a.test", None)._replace(changed_at=NOW + 5)]
        for _ in range(2):
            await delete_peer(connection, "a.test")
        assert await list_peers(connection) == []


@pytest.mark.parametrize(
    "wrong",
    [
        overridden("a.test", trusted=True)._replace(url="http://a:1"),
        overridden("a.test", trusted=True)._replace(authority="PEM"),
        added("a.test")._replace(networks=None),
        added("a.test")._replace(profile="smtp"),
        added("a.test")._replace(signing_key=b"short"),
    ],
)
async def test_an_incomplete_peer_is_refused(database: Database, wrong: PeerRow) -> None:
    """A row has either all columns or only the trust."""
    with pytest.raises(asyncpg.CheckViolationError):
        async with database.transaction() as connection:
            await write_peer(connection, wrong)


async def test_changes_are_serialised(database: Database) -> None:
    """The second transaction sees the changes of the first."""
    began = asyncio.Event()

    async def second() -> list[PeerRow]:
        async with database.transaction() as connection:
            began.set()
            await lock_peers(connection)
            return await list_peers(connection)

    async with database.transaction() as connection:
        await lock_peers(connection)
        waiting = asyncio.create_task(second())
        await began.wait()
        await write_peer(connection, added("a.test"))
    async with asyncio.timeout(TIMEOUT):
        assert [row.node_id for row in await waiting] == ["a.test"]
