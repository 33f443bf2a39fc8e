"""Combining configured and added peers."""

from ipaddress import ip_network
from typing import Any

import pytest

from bridge.config.agent_federation import AgentFederation, AgentPeer, AgentRooms
from bridge.peers.peers import MAX_NAMESPACES, MAX_NETWORKS, MAX_PEERS, PeerRemoval, PeerSnapshot, StoredPeer, read_peer
from federation.client.peer_settings import PeerSettings
from storage.errors import LocalError

IN_FILE = [
    {"node_id": "file.test", "url": "https://10.0.0.1:7676", "namespaces": ["default", "team-a"]},
    {"node_id": "off.test", "trusted": False},
    {"node_id": "Old.test", "profile": "cis-1.1", "url": "http://10.0.0.2:7676"},
]


def federation(**changed: Any) -> AgentFederation:
    return AgentFederation.model_validate({"peers": IN_FILE, **changed})


def snapshot(*stored: StoredPeer, **changed: Any) -> PeerSnapshot:
    return PeerSnapshot("here.test", federation(**changed), stored)


def added(node_id: str = "new.test", *, trusted: bool = True, **settings: Any) -> StoredPeer:
    authority = settings.pop("authority", None)
    return StoredPeer(node_id, trusted, AgentPeer(node_id=node_id, **settings), authority)


def peer(node_id: str = "new.test", **settings: Any) -> AgentPeer:
    return AgentPeer(node_id=node_id, **settings)


def refused(decision: object) -> str:
    assert isinstance(decision, LocalError), decision
    return str(decision)


# ---- current peers -------------------------------------------------------------------------------------


def test_added_peer_equals_configured_peer() -> None:
    """For the connector and the homeserver."""
    one = snapshot(added(url="http://10.0.0.9", namespaces=["team-a"], authority="PEM"))
    same = PeerSnapshot(
        "here.test",
        federation(peers=[*IN_FILE, {"node_id": "new.test", "url": "http://10.0.0.9", "namespaces": ["team-a"]}]),
    )
    assert one.accesses == same.accesses
    assert one.accesses["new.test"].peer.namespaces == {"team-a"}
    assert one.accesses["file.test"].peer.namespaces == {"default", "team-a"}
    assert one.servers == {
        "file.test": PeerSettings("10.0.0.1:7676"),
        "new.test": PeerSettings("10.0.0.9:7676", certificates="PEM"),
    }
    assert one.distrusted == {"off.test"}
    assert one.plain_networks == (ip_network("10.0.0.2"),)


def test_override_trust() -> None:
    """Found in any case; other settings stay."""
    one = snapshot(StoredPeer("FILE.test", False), StoredPeer("off.test", True), StoredPeer("nobody.test", True))
    assert {each.node_id: (each.settings.trusted, each.is_overridden) for each in one} == {
        "file.test": (False, True),
        "off.test": (True, True),
        "Old.test": (True, False),
    }
    assert one.accesses["file.test"].url == "https://10.0.0.1:7676"
    assert (set(one.servers), one.distrusted) == ({"off.test"}, {"file.test"})
    assert one.find("nobody.test") is None


@pytest.mark.parametrize(
    ("in_file", "stored", "holds"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_added_peer_that_is_configured_later(in_file: bool, stored: bool, holds: bool) -> None:
    """It has the file's settings; it is trusted only if both trust it."""
    peers = [{"node_id": "new.test", "url": "https://10.0.0.3", "trusted": in_file}]
    one = snapshot(added(trusted=stored, url="http://10.0.0.9", authority="PEM"), peers=peers)
    found = one.find("new.test")
    assert found is not None
    assert (found.settings.url, found.settings.trusted, found.authority) == ("https://10.0.0.3", holds, None)
    assert one.trust("new.test", trusted=in_file) == PeerRemoval("new.test")
    assert one.trust("new.test", trusted=not in_file) == StoredPeer("new.test", not in_file)
    assert one.remove("new.test") == PeerRemoval("new.test")


def test_disabled_federation() -> None:
    """`enabled = false`: no peers are admitted, and none refused."""
    one = snapshot(added(), enabled=False)
    assert (one.servers, one.distrusted, one.plain_networks) == ({}, frozenset(), ())


# ---- changes by operators ------------------------------------------------------------------------------


def test_add() -> None:
    """A repetition changes nothing; other settings replace the previous ones."""
    wanted = snapshot().add(peer(url="https://10.0.0.9:1"), "PEM")
    assert wanted == added(url="https://10.0.0.9:1", authority="PEM")
    assert isinstance(wanted, StoredPeer)
    assert snapshot(wanted).add(peer(url="https://10.0.0.9:1"), "PEM") is None
    assert snapshot(wanted).add(peer(), None) == added()
    assert snapshot(wanted).add(peer(trusted=False), None) == added(trusted=False)
    assert snapshot(added(trusted=False)).add(peer(trusted=False), None) is None


def test_configured_peer_cannot_be_added() -> None:
    """ "everything else belongs to the file: refused with a sentence that says so"."""
    for node_id in ("file.test", "FILE.test", "off.test"):
        assert "belongs to the file" in refused(snapshot().add(peer(node_id), None))
        assert "belongs to the file" in refused(snapshot().remove(node_id))


def test_remove() -> None:
    """Removing an unknown peer succeeds."""
    assert snapshot(added()).remove("NEW.test") == PeerRemoval("new.test")
    assert snapshot().remove("new.test") is None
    assert snapshot(StoredPeer("nobody.test", False)).remove("nobody.test") == PeerRemoval("nobody.test")


def test_remove_override() -> None:
    """ "removing an override gives back what the file says"."""
    one = snapshot(StoredPeer("file.test", False))
    assert one.remove("file.test") == PeerRemoval("file.test")
    assert one.trust("file.test", trusted=True) == PeerRemoval("file.test")


def test_trust() -> None:
    """Unchanged trust is not stored."""
    assert snapshot().trust("file.test", trusted=True) is None
    assert snapshot().trust("file.test", trusted=False) == StoredPeer("file.test", False)
    assert snapshot(StoredPeer("file.test", False)).trust("file.test", trusted=False) is None
    assert snapshot(added()).trust("new.test", trusted=False) == added(trusted=False)
    assert snapshot(added()).trust("new.test", trusted=True) is None
    assert snapshot(added(trusted=False, authority="PEM")).trust("new.test", trusted=True) == added(authority="PEM")
    assert "is not a peer" in refused(snapshot().trust("nobody.test", trusted=True))


def test_add_with_disabled_federation() -> None:
    """The error names the setting. Removing is always possible."""
    for closed in ({"enabled": False}, {"room": AgentRooms(federate=False)}):
        one = snapshot(added(), **closed)
        assert "federate to true" in refused(one.add(peer("b.test"), None))
        assert "federate to true" in refused(one.trust("new.test", trusted=True))
        assert one.remove("new.test") == PeerRemoval("new.test")


@pytest.mark.parametrize(
    ("wanted", "authority", "sentence"),
    [
        (peer("here.test"), None, "this node itself"),
        (peer("HERE.test"), None, "this node itself"),
        (peer("NEW.test"), None, "only in case"),
        (peer("a." * 119 + "test"), None, "255 bytes"),
        (peer("b.test", namespaces=["n" * 64] * 2), None, None),
        (peer("a." * 100 + "test", namespaces=["n" * 64]), None, "255 bytes"),
        (peer("b.test", profile="cis-1.1", url="http://10.0.0.1"), "PEM", "needs the profile"),
    ],
)
def test_invalid_peers(wanted: AgentPeer, authority: str | None, sentence: str | None) -> None:
    """A sentence says why; nothing is stored."""
    decision = snapshot(added()).add(wanted, authority)
    if sentence is None:
        assert isinstance(decision, StoredPeer)
    else:
        assert sentence in refused(decision)


def test_attached_node_adds_published_nodes() -> None:
    """It cannot share rooms, and the error says what to use instead."""
    guest = PeerSnapshot("here.test", federation(peers=[]), homeserver="their.server")
    settings = refused(guest.add(peer(), None))
    assert "attached to their.server" in settings
    assert "--profile cis-1.1" in settings
    published = peer(profile="cis-1.1", url="http://10.0.0.7:7676")
    assert guest.add(published, None) == StoredPeer("new.test", True, published)


def test_number_of_added_peers_is_limited() -> None:
    """Configured ones do not count, and existing ones can be changed."""
    full = snapshot(*(added(f"n{number}.test") for number in range(MAX_PEERS)))
    assert f"There are already {MAX_PEERS}" in refused(full.add(peer("b.test"), None))
    assert full.add(peer("n1.test", url="http://a"), None) == added("n1.test", url="http://a")
    assert full.trust("file.test", trusted=False) == StoredPeer("file.test", False)


# ---- input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"node_id": "a b"}, "node_id: a b is not a server name."),
        ({"node_id": ""}, "is not a server name"),
        ({"node_id": "@a:b.test"}, "is not a server name"),
        ({"node_id": "b.test/../x"}, "is not a server name"),
        ({"url": "ftp://b.test"}, "is not the URL of a node"),
        ({"url": "https://"}, "is not the URL of a node"),
        ({"url": "https://b.test/path"}, "more than a scheme"),
        ({"url": "https://b.test?x"}, "more than a scheme"),
        ({"url": "https://b.test:99999"}, "is not the URL"),
        ({"url": "https://" + "b" * 250}, "is not the URL"),
        ({"url": "file:///etc/passwd"}, "is not the URL"),
        ({"profile": "smtp"}, "profile: input should be"),
        ({"namespaces": ["Team A"]}, "namespaces: Team A is not a namespace."),
        ({"namespaces": ["n"] * (MAX_NAMESPACES + 1)}, "more than 256 namespaces"),
        ({"networks": ["10.0.0.0/8"]}, "is only for profile"),
        ({"profile": "cis-1.1"}, "needs url"),
        ({"profile": "cis-1.1", "url": "http://b.test"}, "needs networks"),
        ({"profile": "cis-1.1", "url": "http://b.test", "networks": ["10.0.0.1/8"]}, "has host bits set"),
        ({"profile": "cis-1.1", "networks": ["::/0"] * (MAX_NETWORKS + 1)}, "more than 256 networks"),
        ({"profile": "cis-1.1", "url": "http://10.0.0.1", "signing_key": "ff"}, "is not an Ed25519 key"),
        ({"profile": "cis-1.1", "url": "http://10.0.0.1", "require_signature": True}, "needs signing_key"),
    ],
)
def test_errors_are_those_of_the_configuration(settings: dict[str, Any], sentence: str) -> None:
    """With problem and advice."""
    read = read_peer({"node_id": "b.test", **settings})
    assert isinstance(read, LocalError)
    assert sentence in read.problem
    assert read.advice.endswith(".")


def test_password_in_the_url_is_not_repeated() -> None:
    """Errors may be visible to others."""
    read = read_peer({"node_id": "b.test", "url": "https://me:secret@b.test"})
    assert isinstance(read, LocalError)
    assert "secret" not in str(read)
    assert "more than a scheme" in read.problem


def test_valid_input() -> None:
    """As the configuration parses it."""
    settings = {"node_id": "b.test", "profile": "cis-1.1", "url": "http://10.0.0.1:7676/", "namespaces": ["default"]}
    assert read_peer(settings) == AgentPeer.model_validate(settings)
