"""Encryption for one node."""

import pytest
from nacl.signing import SigningKey

from bridge.connectors.offices.federated.encryption import NodeCipher

ID, BOSS = "0" * 32, "@boss:a.test"


def cipher(seed: bytes) -> NodeCipher:
    key = SigningKey(seed * 32)
    return NodeCipher(lambda: key)


def test_only_the_receiver_can_decrypt() -> None:
    """The content is unchanged, including numbers with fractions."""
    local, other = cipher(b"a"), cipher(b"b")
    content = {"x": 1.5, "y": ["ü", None]}
    sealed = NodeCipher.seal(local.public_key, ID, BOSS, content)
    assert local.open(sealed, ID, BOSS) == content
    assert "ü".encode() not in sealed
    with pytest.raises(ValueError, match="cannot be decrypted"):
        other.open(sealed, ID, BOSS)


def test_a_sealed_box_cannot_be_replayed() -> None:
    """With another request id or from another sender it is refused."""
    local = cipher(b"a")
    sealed = NodeCipher.seal(local.public_key, ID, BOSS, {})
    for id_, sender in (("1" * 32, BOSS), (ID, "@mallory:b.test")):
        with pytest.raises(ValueError, match="another request"):
            local.open(sealed, id_, sender)


@pytest.mark.parametrize("damaged", [b"", b"x", b"x" * 200])
def test_other_bytes_are_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be decrypted"):
        cipher(b"a").open(damaged, ID, BOSS)


@pytest.mark.parametrize("public_key", ["", "%", "c2hvcnQ=", "é"])
def test_an_invalid_key_is_refused(public_key: str) -> None:
    with pytest.raises(ValueError, match="cannot be encrypted"):
        NodeCipher.seal(public_key, ID, BOSS, {})


def test_content_must_be_json() -> None:
    with pytest.raises(ValueError, match="cannot be encrypted"):
        NodeCipher.seal(cipher(b"a").public_key, ID, BOSS, {"x": object()})
