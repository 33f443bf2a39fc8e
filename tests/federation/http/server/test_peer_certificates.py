"""Configured client certificates of peers."""

from pathlib import Path

import pytest
from cryptography import x509

from federation.http.server.peer_certificates import PeerCertificates, fingerprint_of, load_peer_certificates
from storage.errors import LocalError
from tests.support.tls import SERVER, Authority, self_signed, signed_by_leaf


def load(tmp_path: Path, **pems: bytes) -> PeerCertificates:
    """Load a file for each peer; `_` in a name stands for a dot."""
    files = {}
    for peer, pem in pems.items():
        files[peer.replace("_", ".")] = tmp_path / f"{peer}.pem"
        files[peer.replace("_", ".")].write_bytes(pem)
    return load_peer_certificates(files)


def test_without_peers_nothing_is_trusted_or_required() -> None:
    """This is the default."""
    assert load_peer_certificates({}) == PeerCertificates()
    assert PeerCertificates().required() == frozenset()
    assert PeerCertificates().trusted() == ""


def test_a_pinned_leaf_belongs_to_its_peer_only(tmp_path: Path) -> None:
    """Even if the same authority signed other certificates."""
    authority = Authority()
    mine, other = authority.issue("a.example"), authority.issue("a.example")
    peers = load(tmp_path, a_example=mine.pem)
    assert peers.required() == {"a.example"}
    assert peers.identify(mine.der).peers == {"a.example"}
    assert peers.identify(other.der).peers == frozenset()


def test_certificates_of_a_pinned_authority_belong_to_its_peer(tmp_path: Path) -> None:
    """Whatever their names; those of another authority of the same name do not."""
    authority, impostor = Authority("The same name"), Authority("The same name")
    peers = load(tmp_path, a_example=authority.pem)
    assert peers.identify(authority.issue("whatever").der).peers == {"a.example"}
    assert peers.identify(impostor.issue("a.example").der).peers == frozenset()


def test_authorities_after_a_leaf_are_not_trusted(tmp_path: Path) -> None:
    """A file often has the full chain, whose intermediate has signed many others."""
    intermediate = Authority("Intermediate", parent=Authority("Root"))
    leaf = intermediate.issue("a.example")
    peers = load(tmp_path, a_example=leaf.pem)
    assert leaf.chain
    assert len(peers.pinned) == 1
    assert peers.identify(intermediate.issue("b.example").der).peers == frozenset()


def test_a_file_may_have_several_authorities(tmp_path: Path) -> None:
    """The root and the intermediate that signs are both pinned."""
    root = Authority("Root")
    intermediate = Authority("Intermediate", parent=root)
    peers = load(tmp_path, a_example=root.pem + intermediate.pem)
    assert peers.identify(intermediate.issue("x").der).peers == {"a.example"}
    assert peers.identify(root.issue("x").der).peers == {"a.example"}


def test_peers_with_a_shared_authority_are_distinguished_by_name(tmp_path: Path) -> None:
    """The authority alone does not identify one of them."""
    authority = Authority()
    peers = load(tmp_path, a_example=authority.pem, b_example=authority.pem)
    assert peers.identify(authority.issue("a.example").der).peers == {"a.example"}
    assert peers.identify(authority.issue("b.example").der).peers == {"b.example"}
    assert peers.identify(authority.issue("c.example").der).peers == frozenset()


def test_a_certificate_signed_by_a_leaf_belongs_to_no_peer(tmp_path: Path) -> None:
    """OpenSSL refuses it in the handshake too."""
    leaf = self_signed("a.example")
    peers = load(tmp_path, a_example=leaf.pem)
    assert peers.identify(signed_by_leaf(leaf, "a.example").der).peers == frozenset()


def test_an_unparsable_certificate_belongs_to_no_peer(tmp_path: Path) -> None:
    """OpenSSL accepts some that the other library does not."""
    assert load(tmp_path, a_example=self_signed("a.example").pem).identify(b"junk").peers == frozenset()


def test_trust_anchors_have_no_duplicates(tmp_path: Path) -> None:
    """Two peers may share an authority."""
    authority = Authority()
    pem = load(tmp_path, a_example=authority.pem, b_example=authority.pem).trusted()
    (trusted,) = x509.load_pem_x509_certificates(pem.encode())
    assert fingerprint_of(trusted) == fingerprint_of(authority.issued.certificate)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, r"of a\.example, .*missing\.pem, could not be read: No such file"),
        (b"", "is not a certificate in PEM"),
        (b"\x30\x82", "is not a certificate in PEM"),
    ],
)
def test_an_invalid_file_is_reported(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """With the names of the peer and of the file."""
    path = tmp_path / "missing.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LocalError, match=problem):
        load_peer_certificates({"a.example": path})


def test_a_certificate_for_servers_only_is_reported(tmp_path: Path) -> None:
    """OpenSSL would refuse it in each handshake without a clear reason."""
    with pytest.raises(LocalError, match="not valid for TLS clients"):
        load(tmp_path, a_example=Authority().issue("a.example", purposes=(SERVER,)).pem)


def test_a_certificate_without_extended_key_usage_is_valid_for_clients(tmp_path: Path) -> None:
    """Without the extension all uses are permitted."""
    leaf = Authority().issue("a.example", purposes=())
    assert load(tmp_path, a_example=leaf.pem).identify(leaf.der).peers == {"a.example"}
