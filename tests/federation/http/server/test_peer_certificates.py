from pathlib import Path

import pytest
from cryptography import x509

from federation.http.server.peer_certificates import PeerCertificates, fingerprint_of, load_peer_certificates
from storage.errors import LocalError
from tests.support.tls import SERVER, Authority, self_signed, signed_by_leaf


def load(tmp_path: Path, **pems: bytes) -> PeerCertificates:
    """A file for each peer; `_` stands for the dot in its name."""
    files = {}
    for peer, pem in pems.items():
        files[peer.replace("_", ".")] = tmp_path / f"{peer}.pem"
        files[peer.replace("_", ".")].write_bytes(pem)
    return load_peer_certificates(files)


def test_without_peers_nothing_is_trusted_or_required() -> None:
    """The default."""
    assert load_peer_certificates({}) == PeerCertificates()
    assert PeerCertificates().required() == frozenset()
    assert PeerCertificates().trusted() == ""


def test_a_pinned_leaf_is_its_peers_and_nobody_elses(tmp_path: Path) -> None:
    """Also where the same authority signed another one."""
    authority = Authority()
    mine, other = authority.issue("a.example"), authority.issue("a.example")
    peers = load(tmp_path, a_example=mine.pem)
    assert peers.required() == {"a.example"}
    assert peers.identify(mine.der).peers == {"a.example"}
    assert peers.identify(other.der).peers == frozenset()


def test_a_pinned_authority_speaks_by_what_it_signed(tmp_path: Path) -> None:
    """Whatever the names; and another authority of the same name does not."""
    authority, impostor = Authority("The same name"), Authority("The same name")
    peers = load(tmp_path, a_example=authority.pem)
    assert peers.identify(authority.issue("whatever").der).peers == {"a.example"}
    assert peers.identify(impostor.issue("a.example").der).peers == frozenset()


def test_the_authorities_behind_a_leaf_are_not_believed(tmp_path: Path) -> None:
    """A full chain is a common file; its intermediate has signed for half the world."""
    intermediate = Authority("Intermediate", parent=Authority("Root"))
    leaf = intermediate.issue("a.example")
    peers = load(tmp_path, a_example=leaf.pem)
    assert leaf.chain
    assert len(peers.pinned) == 1
    assert peers.identify(intermediate.issue("b.example").der).peers == frozenset()


def test_an_authority_may_come_with_others(tmp_path: Path) -> None:
    """The root and the intermediate that signs: each counts."""
    root = Authority("Root")
    intermediate = Authority("Intermediate", parent=root)
    peers = load(tmp_path, a_example=root.pem + intermediate.pem)
    assert peers.identify(intermediate.issue("x").der).peers == {"a.example"}
    assert peers.identify(root.issue("x").der).peers == {"a.example"}


def test_peers_under_one_authority_are_told_apart_by_their_names(tmp_path: Path) -> None:
    """A shared authority says only that it is one of them."""
    authority = Authority()
    peers = load(tmp_path, a_example=authority.pem, b_example=authority.pem)
    assert peers.identify(authority.issue("a.example").der).peers == {"a.example"}
    assert peers.identify(authority.issue("b.example").der).peers == {"b.example"}
    assert peers.identify(authority.issue("c.example").der).peers == frozenset()


def test_what_a_leaf_signed_is_nobodys(tmp_path: Path) -> None:
    """OpenSSL refuses it in the handshake already; this would too."""
    leaf = self_signed("a.example")
    peers = load(tmp_path, a_example=leaf.pem)
    assert peers.identify(signed_by_leaf(leaf, "a.example").der).peers == frozenset()


def test_what_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    """OpenSSL accepts some certificates that the other library does not."""
    assert load(tmp_path, a_example=self_signed("a.example").pem).identify(b"junk").peers == frozenset()


def test_each_is_trusted_once(tmp_path: Path) -> None:
    """Two peers may name the same authority."""
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
def test_a_file_that_is_no_certificate_is_explained(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    """With the peer's name and the file's."""
    path = tmp_path / "missing.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LocalError, match=problem):
        load_peer_certificates({"a.example": path})


def test_a_certificate_for_servers_only_is_explained(tmp_path: Path) -> None:
    """OpenSSL would refuse it in every handshake, and say very little."""
    with pytest.raises(LocalError, match="not valid for TLS clients"):
        load(tmp_path, a_example=Authority().issue("a.example", purposes=(SERVER,)).pem)


def test_a_certificate_for_nothing_in_particular_is_for_clients_too(tmp_path: Path) -> None:
    """Without the extension it may be used for everything."""
    leaf = Authority().issue("a.example", purposes=())
    assert load(tmp_path, a_example=leaf.pem).identify(leaf.der).peers == {"a.example"}
