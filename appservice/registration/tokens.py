"""Tokens: the homeserver's `hs_token`, encrypted tokens of people, and transaction keys.

The homeserver authenticates with the `hs_token` of the registration. Application service API,
"Authorization".

Stored tokens of people are encrypted and bound to their owners. A copy of the database alone, such as a
backup, reveals no tokens, and write access to it cannot turn one person's token into another's.

A transaction key identifies a message that this node has sent, so that it is not sent twice. A homeserver
remembers transaction ids only until it restarts, and counts an application service with all its users as one
client. A key in the content lasts as long as the message.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from federation.matrix.errors import MatrixError


def check(authorization: Sequence[str], query: Sequence[str], hs_token: str) -> None:
    """`authorization` are the values of that header, `query` those of the parameter `access_token`, which
    older homeservers send instead or in addition. Raises `MatrixError`."""
    # "Application services MUST verify that the provided Bearer token matches their known hs_token, failing
    # the request with an M_FORBIDDEN error if it does not."
    tokens = [*(_bearer(header) for header in authorization), *query]
    if not tokens:
        raise MatrixError("M_UNAUTHORIZED", "The request has to carry the hs_token of the registration.", 401)
    # Compare every token completely, so that the duration reveals nothing.
    matches = [hmac.compare_digest(_bytes(token), _bytes(hs_token)) for token in tokens]
    if not all(matches):
        raise MatrixError("M_FORBIDDEN", "This is not the hs_token of the registration.", 403)


def _bearer(header: str) -> str:
    """Return an empty string, which is never a token, for other schemes."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


KEY_BYTES: Final = SecretBox.KEY_SIZE
NONCE_BYTES: Final = SecretBox.NONCE_SIZE
MAX_TOKEN_LENGTH: Final = 4_096
"""Characters; homeservers issue tokens of 40 to some hundred characters."""
_SEPARATOR: Final = b"\n"
"""Occurs in no user id."""


def seal(key: bytes, nonce: bytes, user: str, token: str) -> bytes:
    """`nonce` is random and used once."""
    return bytes(SecretBox(key).encrypt(user.encode() + _SEPARATOR + token.encode(), nonce))


def unseal(key: bytes, box: bytes, user: str) -> str | None:
    """Return None for a token that was encrypted with another key or for another person."""
    try:
        owner, separator, token = SecretBox(key).decrypt(box).partition(_SEPARATOR)
    except (CryptoError, ValueError):
        return None
    return token.decode() if separator and hmac.compare_digest(owner, user.encode()) else None


def transaction_key(sender: str, room_id: str, transaction_id: str) -> str:
    """The same transaction id gives different keys for different senders and rooms, and a key reveals nothing
    of the transaction id."""
    # No id contains NUL.
    named = f"{sender}\0{room_id}\0{transaction_id}"
    return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
