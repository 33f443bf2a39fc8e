"""The peers that all processes of a node share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge.config.agent_federation import AgentFederation, AgentPeer
from bridge.peers.peers import StoredPeer, read_peer
from bridge.peers.service import AgentPeers
from storage.agents.peers import PeerRow, list_peers, write_peer
from storage.database import Connection, Database
from storage.errors import LocalError
from tests.support.postgres import end_sessions, pool_on
from tests.support.tls import Authority

NOW = 1_800_000_000_000
TIMEOUT = 30.0
IN_FILE = {"node_id": "file.test", "url": "https://10.0.0.1:7676"}


@contextlib.asynccontextmanager
async def peers_on(database: Database, *reports: list[str], **changed: Any) -> AsyncIterator[AgentPeers]:
    federation = AgentFederation.model_validate({"peers": [IN_FILE], **changed})

    def report(sentence: str, error: BaseException | None) -> None:
        for each in reports:
            each.append(sentence)

    async with pool_on(database.address) as own:
        peers = AgentPeers("here.test", federation, own, now_ms=lambda: NOW, report=report)
        await peers.start()
        try:
            yield peers
        finally:
            await peers.close()


async def until(peers: AgentPeers, condition: Callable[[], object]) -> None:
    """Wait until the condition holds in this process."""
    changed = asyncio.Event()
    end = peers.subscribe(lambda _: changed.set())
    try:
        async with asyncio.timeout(TIMEOUT):
            while not condition():
                changed.clear()
                await changed.wait()
    finally:
        end()


def peer(node_id: str = "new.test", **settings: Any) -> AgentPeer:
    read = read_peer({"node_id": node_id, **settings})
    assert isinstance(read, AgentPeer), read
    return read


async def test_added_peer_is_active_and_stored(database: Database) -> None:
    """The views show it immediately; later processes load it."""
    authority = Authority().pem.decode()
    async with peers_on(database) as peers:
        accesses, servers = peers.peers, peers.servers
        assert set(accesses) == {"file.test"}
        assert await peers.add(peer(url="https://10.0.0.9", namespaces=["team-a"]), authority)
        assert not await peers.add(peer(url="https://10.0.0.9", namespaces=["team-a"]), authority)
        assert accesses["new.test"].peer.namespaces == {"team-a"}
        assert servers["new.test"].address == "10.0.0.9:7676"
        assert servers["new.test"].certificates == authority
        before = dict(accesses), dict(servers)
    async with peers_on(database) as peers:
        assert (dict(peers.peers), dict(peers.servers)) == before


async def test_all_settings_are_stored(database: Database) -> None:
    """Also of a published node."""
    old = peer(
        "old.test",
        profile="cis-1.1",
        url="http://10.0.0.3:7676",
        networks=["10.0.0.0/24", "fd00::/8"],
        signing_key="ab" * 32,
        require_signature=True,
        trusted=False,
    )
    async with peers_on(database) as peers:
        await peers.add(old)
    async with peers_on(database) as peers:
        found = peers.snapshot.find("old.test")
        assert found is not None
        assert found.settings == old
        assert "old.test" in peers.distrusted
        assert list(map(str, peers.plain_networks)) == ["10.0.0.0/24", "fd00::/8"]


async def test_trust_of_a_configured_peer(database: Database) -> None:
    """It is stored only while it differs from the file."""
    async with peers_on(database) as peers:
        assert await peers.trust("file.test", trusted=False)
        assert not await peers.trust("file.test", trusted=False)
        assert not peers.peers["file.test"].peer.trusted
        assert ("file.test" in peers.distrusted, len(peers.servers)) == (True, 0)
        assert await peers.remove("file.test")
        assert peers.peers["file.test"].peer.trusted
        with pytest.raises(LocalError, match="belongs to the file"):
            await peers.remove("file.test")
    async with database.transaction() as connection:
        assert await list_peers(connection) == []


async def test_refusals_change_nothing(database: Database) -> None:
    """Neither in memory nor in the database. Removing an unknown peer is idempotent."""
    told: list[Collection[str]] = []
    async with peers_on(database) as peers:
        peers.subscribe(told.append)
        with pytest.raises(LocalError, match="belongs to the file"):
            await peers.add(peer("file.test"))
        with pytest.raises(LocalError, match="this node itself"):
            await peers.add(peer("here.test"))
        with pytest.raises(LocalError, match="is not a peer"):
            await peers.trust("nobody.test", trusted=True)
        with pytest.raises(LocalError, match="are invalid"):
            await peers.add(peer(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        assert not await peers.remove("nobody.test")
    assert told == []
    async with database.transaction() as connection:
        assert await list_peers(connection) == []


async def test_listeners_are_called(database: Database) -> None:
    """Once per change, after the views; a failing listener does not affect the others."""
    told: list[tuple[list[str], bool]] = []
    reports: list[str] = []

    def fails(node_ids: Collection[str]) -> None:
        raise ZeroDivisionError

    async with peers_on(database, reports) as peers:
        peers.subscribe(fails)
        end = peers.subscribe(lambda node_ids: told.append((list(node_ids), "new.test" in peers.peers)))
        await peers.add(peer())
        await peers.add(peer())
        await peers.trust("new.test", trusted=False)
        await peers.remove("new.test")
        end()
        await peers.add(peer())
    assert told == [(["new.test"], True), (["new.test"], True), (["new.test"], False)]
    assert set(reports) == {"A listener failed to handle a change of the peers."}


async def test_two_processes(database: Database) -> None:
    """Changes of one reach the other."""
    async with peers_on(database) as one, peers_on(database) as other:
        await one.add(peer())
        await until(other, lambda: "new.test" in other.peers)
        await other.trust("new.test", trusted=False)
        await until(one, lambda: not one.peers["new.test"].peer.trusted)
        await asyncio.gather(*(each.add(peer(f"{number}.test")) for number in range(4) for each in (one, other)))
        for each in (one, other):
            await until(each, lambda each=each: len(each.peers) == 6)
        await other.remove("new.test")
        await until(one, lambda: "new.test" not in one.peers)
        assert dict(one.peers) == dict(other.peers)


async def test_lost_connection(database: Database) -> None:
    """Changes meanwhile are loaded after the reconnect."""
    async with peers_on(database) as one, peers_on(database) as other:
        await end_sessions(database)
        await one.add(peer())
        await until(other, lambda: "new.test" in other.peers)


async def test_following_continues_after_an_error(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is reported; and it closes."""
    failures = 2
    failed = asyncio.Event()

    async def fail(connection: Connection) -> list[PeerRow]:
        nonlocal failures
        failures -= 1
        if not failures:
            monkeypatch.setattr("storage.agents.peers.list_peers", list_peers)
            failed.set()
        raise ValueError("broken")

    async with peers_on(database) as one, peers_on(database) as other:
        await one.add(peer("first.test"))
        await until(other, lambda: "first.test" in other.peers)
        with capture_logs() as logs:
            monkeypatch.setattr("storage.agents.peers.list_peers", fail)
            await end_sessions(database)
            await failed.wait()
            await one.add(peer())
            await until(other, lambda: "new.test" in other.peers)
        assert [entry["task"] for entry in logs if entry["log_level"] == "error"] == ["agent peers"] * 2


async def test_row_of_another_version(database: Database) -> None:
    """An invalid peer is skipped and reported."""
    row = PeerRow("odd.test", True, "matrix", "gopher://x", None, [], None, False, None, NOW, NOW)
    async with database.transaction() as connection:
        await write_peer(connection, row)
    reports: list[str] = []
    async with peers_on(database, reports) as peers:
        assert set(peers.peers) == {"file.test"}
        assert reports == ["The peer odd.test is invalid and was skipped: add it again."]
        assert await peers.add(peer("odd.test"))
        assert peers.snapshot.find("odd.test") is not None
        assert peers.snapshot.find("odd.test").stored == StoredPeer("odd.test", True, peer("odd.test"))  # type: ignore[union-attr] # it was just found
