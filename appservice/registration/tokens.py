"""Whether it is the homeserver that asks: it shows the `hs_token` of the registration.

Application service API, "Authorization".

A person's token as it is kept: encrypted, and bound to whose it is.

Who has the database alone, such as a backup of it, has no tokens; and who can write to it cannot make of one
person's token that of another.

By what a message of ours is known when it comes back, so that nobody says it twice.

A homeserver remembers the transaction ids of its clients until it is started again, and an application
service is one client for all of its users. What is written into a message is there as long as the message.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from federation.matrix.errors import MatrixError


def check(authorization: Sequence[str], query: Sequence[str], hs_token: str) -> None:
    """`authorization` are the headers of that name, `query` the parameters `access_token`, which older
    homeservers send instead or besides. Raises `MatrixError`."""
    # "Application services MUST verify that the provided Bearer token matches their known hs_token, failing
    # the request with an M_FORBIDDEN error if it does not."
    shown = [*(_bearer(header) for header in authorization), *query]
    if not shown:
        raise MatrixError("M_UNAUTHORIZED", "Show the hs_token of the registration.", 401)
    # Each of them, and all of them to the end: how long it takes tells nothing.
    right = [hmac.compare_digest(_bytes(token), _bytes(hs_token)) for token in shown]
    if not all(right):
        raise MatrixError("M_FORBIDDEN", "This is not the hs_token of the registration.", 403)


def _bearer(header: str) -> str:
    """Empty, which no token is, for another scheme."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


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


def transaction_key(sender: str, room_id: str, transaction_id: str) -> str:
    """The same transaction id of another sender, or in another room, has another key; and nobody who reads
    it learns how the node counts."""
    # No id holds NUL.
    named = f"{sender}\0{room_id}\0{transaction_id}"
    return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
