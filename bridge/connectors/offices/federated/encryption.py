"""Encrypts content for one node, in the sealed boxes of NaCl, and decrypts what was encrypted for this node.

Each event of the room is signed by its sender's server, but anyone can copy a sealed box into an event of
their own. So the box contains the request's id and the sender once more.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import orjson
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox
from nacl.signing import SigningKey


class NodeCipher:
    """`key` returns the node's signing key, from which the encryption key is derived."""

    def __init__(self, key: Callable[[], SigningKey]) -> None:
        self._key = key

    @property
    def public_key(self) -> str:
        """The public key with which other nodes encrypt for this one."""
        return b64encode(bytes(self._private().public_key)).decode()

    @staticmethod
    def seal(public_key: str, id_: str, sender: str, content: Any) -> bytes:
        """Raises `ValueError` if the key is not valid, or the content cannot be written as JSON."""
        try:
            public = PublicKey(b64decode(public_key, validate=True))
            return SealedBox(public).encrypt(orjson.dumps([id_, sender, content]))
        except (ValueError, CryptoError, TypeError) as wrong:
            raise ValueError(f"It cannot be encrypted: {wrong}") from None

    def open(self, sealed: bytes, id_: str, sender: str) -> Any:
        """Raises `ValueError` if it was not encrypted for this node, this request and this sender."""
        try:
            opened = orjson.loads(SealedBox(self._private()).decrypt(sealed))
        except (CryptoError, orjson.JSONDecodeError) as wrong:
            raise ValueError(f"It cannot be decrypted: {wrong}") from None
        if not isinstance(opened, list) or opened[:2] != [id_, sender] or len(opened) != 3:
            raise ValueError("It was encrypted for another request or by another sender.")
        return opened[2]

    def _private(self) -> PrivateKey:
        return self._key().to_curve25519_private_key()
