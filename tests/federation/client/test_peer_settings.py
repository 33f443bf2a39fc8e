"""What the configuration says of one server."""

from pathlib import Path

from federation.client.peer_settings import (
    DEFAULT_SETTINGS,
    CertificateFiles,
    ConfiguredPeers,
    PeerSettings,
    Trust,
)


def test_a_server_is_found_in_any_case() -> None:
    """Host names have none, and a claim in capitals must not escape its settings."""
    peers = ConfiguredPeers({"Kitchen.local": PeerSettings(plain=True)})
    assert peers.of("KITCHEN.LOCAL").plain
    assert peers.of("cellar.local") is DEFAULT_SETTINGS


def test_only_those_named_are_known() -> None:
    """In any case, and with the port that belongs to the name."""
    peers = ConfiguredPeers({"kitchen.local:7676": PeerSettings()})
    assert peers.know("Kitchen.local:7676")
    assert not peers.know("kitchen.local")


def test_servers_come_and_go() -> None:
    """Those that are added are looked up at each question; what the configuration says goes further."""
    added = {"kitchen.local": PeerSettings("a:1"), "cellar.local": PeerSettings("b:1", certificates="PEM")}
    peers = ConfiguredPeers({"Kitchen.local": PeerSettings()}, added)
    assert peers.of("kitchen.local").address is None
    assert peers.of("CELLAR.local").address == "b:1"
    assert peers.know("Cellar.local")
    assert peers.trusts() == {Trust(), Trust(certificates="PEM")}
    del added["cellar.local"]
    assert peers.of("cellar.local") is DEFAULT_SETTINGS
    assert not peers.know("cellar.local")


def test_each_way_of_shaking_hands_is_listed_once() -> None:
    """Files that several peers share are read once."""
    files = CertificateFiles(Path("a"), Path("b"))
    settings = PeerSettings(client_certificate=files)
    peers = ConfiguredPeers({"a": settings, "b": settings, "c": PeerSettings(authority=Path("ca"))})
    assert peers.trusts() == {Trust(None, files), Trust(Path("ca"), None)}
    assert ConfiguredPeers().trusts() == frozenset()
