"""Seals what only one node is to read, and opens what was sealed for this one.

Every event of the room is signed by the server of its sender; so what is sealed says once more which request
it belongs to and who says it, and cannot be said again by somebody else.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import orjson
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox
from nacl.signing import SigningKey


class Sealing:
    """`key` is the node's."""

    def __init__(self, key: Callable[[], SigningKey]) -> None:
        self._key = key

    @property
    def box(self) -> str:
        """The public key for which others seal."""
        return b64encode(bytes(self._private().public_key)).decode()

    @staticmethod
    def seal(box: str, id_: str, sender: str, said: Any) -> bytes:
        """Raises `ValueError` when that is no key, or this no JSON."""
        try:
            public = PublicKey(b64decode(box, validate=True))
            return SealedBox(public).encrypt(orjson.dumps([id_, sender, said]))
        except (ValueError, CryptoError, TypeError) as wrong:
            raise ValueError(f"It cannot be sealed: {wrong}") from None

    def open(self, sealed: bytes, id_: str, sender: str) -> Any:
        """Raises `ValueError` when it was not sealed for us, in this place, by this user."""
        try:
            opened = orjson.loads(SealedBox(self._private()).decrypt(sealed))
        except (CryptoError, orjson.JSONDecodeError) as wrong:
            raise ValueError(f"It cannot be opened: {wrong}") from None
        if not isinstance(opened, list) or opened[:2] != [id_, sender] or len(opened) != 3:
            raise ValueError("It was sealed for another place.")
        return opened[2]

    def _private(self) -> PrivateKey:
        return self._key().to_curve25519_private_key()
