"""How the homeserver follows changes of peers."""

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from bridge.node.homeserver_backend import with_peers, with_plain_http
from federation.client.peer_settings import ConfiguredPeers, PeerSettings
from federation.homeserver import HomeserverSettings
from federation.http.server.listener import ListenerSettings
from federation.matrix.networks import AcceptPlain, AdmissionRules, Refusal, Refuse, admit
from federation.peers.policy import policy
from storage.database import Database
from tests.bridge.connectors.cis.peered_nodes import peered_nodes
from tests.bridge.peers.test_service import peer, peers_on
from tests.support.loopback_server import Certificates
from tests.support.ports import lasting_port
from tests.support.postgres import Server

IN_FILE = [
    {"node_id": "file.test", "url": "https://10.0.0.1"},
    {"node_id": "both.test", "url": "https://10.0.0.2"},
    {"node_id": "off.test", "trusted": False},
]
SERVERS = {"Both.test": PeerSettings("10.9.9.9:1"), "server.test": PeerSettings()}


def settings(**changed: Any) -> HomeserverSettings:
    """From a configuration that may name agent peers as servers too."""
    peers = {**SERVERS, "file.test": PeerSettings("10.0.0.1:7676")}
    made = HomeserverSettings("here.test", "test", Path(), peers=peers, policy=policy(peers, is_open=False))
    return replace(made, **changed)


async def test_trusted_peers_are_admitted(database: Database) -> None:
    """A [[peers]] block takes precedence."""
    async with peers_on(database, peers=IN_FILE) as peers:
        made = with_peers(settings(), peers, SERVERS)
        known, admits = ConfiguredPeers(made.peers, made.added_peers), made.policy.admits
        assert set(made.peers) == set(SERVERS)
        assert known.of("both.test").address == "10.9.9.9:1"
        assert known.of("file.test").address == "10.0.0.1:7676"
        names = ("file.test", "FILE.test", "both.test", "server.test")
        assert all(map(admits, names))
        assert not any(map(admits, ("off.test", "new.test")))
        await peers.add(peer(url="https://10.0.0.9:1"))
        assert (known.of("NEW.test").address, admits("new.test")) == ("10.0.0.9:1", True)
        await peers.trust("file.test", trusted=False)
        await peers.remove("new.test")
        await peers.trust("off.test", trusted=True)
        assert not any(map(admits, ("file.test", "new.test")))
        assert admits("off.test")
        assert not known.is_configured("new.test")


async def test_distrusted_peers_are_refused(database: Database) -> None:
    """Even if the policy or a block admits them: they would receive messages of all agents."""
    async with peers_on(database, peers=IN_FILE) as peers:
        made = with_peers(settings(policy=policy((), is_open=True)), peers, SERVERS)
        assert (made.policy.admits("anybody.test"), made.policy.admits("OFF.test")) == (True, False)
        closed = with_peers(settings(), peers, SERVERS)
        await peers.trust("both.test", trusted=False)
        assert not closed.policy.admits("both.test")
        assert not made.policy.admits("both.test")
        await peers.remove("both.test")
        assert closed.policy.admits("both.test")


async def test_plain_http_of_published_nodes(database: Database) -> None:
    """Only from their networks, and only while they are peers."""
    async with peers_on(database) as peers:
        made = with_plain_http(ListenerSettings((), 0), peers)
        rules, from_there = AdmissionRules(made.plain_networks), ip_address("192.0.2.1")
        assert isinstance(admit(ip_address("127.0.0.1"), ord("P"), rules), AcceptPlain)
        assert admit(from_there, ord("P"), rules) == Refuse(Refusal.PLAIN_NOT_ALLOWED)
        await peers.add(peer("old.test", profile="cis-1.1", url="http://192.0.2.1:7676"))
        assert admit(from_there, ord("P"), rules) == AcceptPlain()
        await peers.trust("old.test", trusted=False)
        assert admit(from_there, ord("P"), rules) == AcceptPlain()
        await peers.remove("old.test")
        assert admit(from_there, ord("P"), rules) == Refuse(Refusal.PLAIN_NOT_ALLOWED)


async def test_changed_peer_is_resolved_again(postgres_server: Server, migrated_template: str, tmp_path: Path) -> None:
    """At once, also if it was unreachable."""
    certificates = Certificates(tmp_path)
    async with peered_nodes(postgres_server, migrated_template, certificates) as nodes:
        one, other = await nodes.strangers("a.test", "b.test")
        await other.local_agents.register("worker")
        await nodes.add("b.test", "a.test")
        await nodes.add("a.test", "b.test", url=f"https://127.0.0.1:{lasting_port()}")
        resolver = one.node.homeserver.resolver
        elsewhere = await resolver.route("b.test")
        await nodes.add("a.test", "b.test")
        assert await resolver.route("b.test") != elsewhere
        await one.wait_online("worker@b.test")
