"""What the configuration says of one server."""

from pathlib import Path

from federation.peer_settings import NOTHING_SPECIAL, CertificateFiles, Peers, PeerSettings


def test_a_server_is_found_in_any_case() -> None:
    """Host names have none, and a claim in capitals must not escape its settings."""
    peers = Peers({"Kitchen.local": PeerSettings(plain=True)})
    assert peers.of("KITCHEN.LOCAL").plain
    assert peers.of("cellar.local") is NOTHING_SPECIAL


def test_certificates_are_listed_once() -> None:
    """One for several peers is read once."""
    files = CertificateFiles(Path("a"), Path("b"))
    peers = Peers({"a": PeerSettings(client_certificate=files), "b": PeerSettings(client_certificate=files)})
    assert peers.client_certificates() == {files}
    assert Peers().client_certificates() == frozenset()
