"""Tokens with which agents show who they are: `plv_`, an id that is no secret, a secret, and a checksum.

The id finds the row in the database, which keeps nothing of the secret but a hash of the whole. The checksum
tells what was copied badly, or is no token, before anybody looks for it.
"""

import hmac
import re
from binascii import crc32
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

PREFIX: Final = "plv_"
ID_BYTES: Final = 7
SECRET_BYTES: Final = 32

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# So many digits hold so many bytes: 62^10 > 2^56, 62^43 > 2^256, 62^6 > 2^32.
_ID, _SECRET, _CHECKSUM = 10, 43, 6
_TOKEN: Final = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{_ID}}})[0-9A-Za-z]{{{_SECRET}}}([0-9A-Za-z]{{{_CHECKSUM}}})"
)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is the token itself."""

    token_id: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        """No salt and no slowness: there are 2^256 secrets, and nobody guesses one."""
        return sha256(self.text.encode("ascii")).digest()

    def matches(self, kept: bytes) -> bool:
        """In a time that does not depend on where they differ."""
        return hmac.compare_digest(self.hash, kept)


def make_token(id_bytes: bytes, secret: bytes) -> Token:
    """Of random bytes."""
    assert (len(id_bytes), len(secret)) == (ID_BYTES, SECRET_BYTES), "its length is part of its form"
    token_id = _digits(int.from_bytes(id_bytes), _ID)
    body = f"{PREFIX}{token_id}{_digits(int.from_bytes(secret), _SECRET)}"
    return Token(token_id, body + _checksum(body))


def read_token(text: str) -> Token | None:
    """None for what was never a token."""
    found = _TOKEN.fullmatch(text)
    if found is None or _checksum(text[:-_CHECKSUM]) != found[2]:
        return None
    return Token(found[1], text)


def read_bearer(headers: list[str]) -> Token | None:
    """Of the `Authorization` headers of a request. RFC 6750, 2.1: `Bearer`, and the word is the same in
    capitals (RFC 9110, 11.1)."""
    if len(headers) != 1:
        return None
    scheme, _, rest = headers[0].partition(" ")
    return read_token(rest.strip(" ")) if scheme.lower() == "bearer" else None


def _checksum(body: str) -> str:
    return _digits(crc32(body.encode("ascii")), _CHECKSUM)


def _digits(number: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        number, rest = divmod(number, len(_DIGITS))
        digits = _DIGITS[rest] + digits
    return digits
