"""Settings of single servers."""

from pathlib import Path

from federation.client.peer_settings import DEFAULT_SETTINGS, CertificateFiles, ConfiguredPeers, PeerSettings, Trust


def test_a_server_is_found_in_any_case() -> None:
    """Server names are compared without regard to case, so that no server escapes its settings."""
    peers = ConfiguredPeers({"Kitchen.local": PeerSettings(plain=True)})
    assert peers.of("KITCHEN.LOCAL").plain
    assert peers.of("cellar.local") is DEFAULT_SETTINGS


def test_only_configured_servers_are_known() -> None:
    """In any case, and with the port of the name."""
    peers = ConfiguredPeers({"kitchen.local:7676": PeerSettings()})
    assert peers.is_configured("Kitchen.local:7676")
    assert not peers.is_configured("kitchen.local")


def test_added_servers() -> None:
    """They are looked up each time; the configuration takes precedence."""
    added = {"kitchen.local": PeerSettings("a:1"), "cellar.local": PeerSettings("b:1", certificates="PEM")}
    peers = ConfiguredPeers({"Kitchen.local": PeerSettings()}, added)
    assert peers.of("kitchen.local").address is None
    assert peers.of("CELLAR.local").address == "b:1"
    assert peers.is_configured("Cellar.local")
    assert peers.trusts() == {Trust(), Trust(certificates="PEM")}
    del added["cellar.local"]
    assert peers.of("cellar.local") is DEFAULT_SETTINGS
    assert not peers.is_configured("cellar.local")


def test_distinct_tls_settings() -> None:
    """Files that several peers share are read once."""
    files = CertificateFiles(Path("a"), Path("b"))
    settings = PeerSettings(client_certificate=files)
    peers = ConfiguredPeers({"a": settings, "b": settings, "c": PeerSettings(authority=Path("ca"))})
    assert peers.trusts() == {Trust(None, files), Trust(Path("ca"), None)}
    assert ConfiguredPeers().trusts() == frozenset()
