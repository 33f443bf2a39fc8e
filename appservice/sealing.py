"""A person's token as it is kept: encrypted, and bound to whose it is.

Who has the database alone, such as a backup of it, has no tokens; and who can write to it cannot make of one
person's token that of another.
"""

import hmac
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

KEY_BYTES: Final = SecretBox.KEY_SIZE
NONCE_BYTES: Final = SecretBox.NONCE_SIZE
MOST_TOKEN: Final = 4_096
"""Characters; those of homeservers have 40 to some hundreds."""
_BETWEEN: Final = b"\n"
"""In no user id."""


def sealed(key: bytes, nonce: bytes, user: str, token: str) -> bytes:
    """`nonce` is random, and used once."""
    return bytes(SecretBox(key).encrypt(user.encode() + _BETWEEN + token.encode(), nonce))


def opened(key: bytes, box: bytes, user: str) -> str | None:
    """None for one that was sealed with another key, or for another person."""
    try:
        whose, between, token = SecretBox(key).decrypt(box).partition(_BETWEEN)
    except (CryptoError, ValueError):
        return None
    return token.decode() if between and hmac.compare_digest(whose, user.encode()) else None
