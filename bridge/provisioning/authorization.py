"""What somebody shows who asks: an access token of the homeserver, a token by which a user shows to others
who he is, or a secret that programs have from the operator."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from federation.errors import MatrixError

MOST_TOKEN: Final = 4_096
SHORTEST_SECRET: Final = 32
_OPENID: Final = "openid:"


@dataclass(frozen=True, slots=True)
class Shown:
    token: str = field(repr=False)
    is_openid: bool = False

    @property
    def digest(self) -> bytes:
        """By which it is remembered."""
        return sha256(f"{self.is_openid}:{self.token}".encode()).digest()


def read(authorization: Sequence[str]) -> Shown:
    """Of the headers of that name. Raises `MatrixError`."""
    # RFC 6750, 2.1: `Bearer`, and the word is the same in capitals (RFC 9110, 11.1).
    if not authorization:
        raise MatrixError("M_MISSING_TOKEN", "Show an access token of the homeserver.", 401)
    scheme, _, token = authorization[0].strip().partition(" ")
    token = token.strip()
    if len(authorization) > 1 or scheme.lower() != "bearer" or not token:
        raise MatrixError("M_MISSING_TOKEN", "Show one token, as `Authorization: Bearer …`.", 401)
    is_openid = token.startswith(_OPENID)
    token = token.removeprefix(_OPENID)
    # Whatever else it is, a homeserver has not given it.
    if not 0 < len(token) <= MOST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise unknown_token()
    return Shown(token, is_openid)


def is_secret(shown: Shown, secret: str | None) -> bool:
    """In a time that does not depend on where they differ."""
    return (
        secret is not None
        and not shown.is_openid
        and hmac.compare_digest(shown.token.encode(), secret.encode())
    )


def wrong_secret(secret: str) -> str | None:
    """Why programs cannot show it: a sentence, with nothing in it of the secret."""
    if len(secret) < SHORTEST_SECRET:
        return f"It has to have {SHORTEST_SECRET} characters or more."
    if not secret.isascii() or not secret.isprintable() or " " in secret or secret.startswith(_OPENID):
        return "It has to be letters, digits and signs without blanks, in one line."
    return None


def unknown_token() -> MatrixError:
    return MatrixError("M_UNKNOWN_TOKEN", "The homeserver does not know that token.", 401)
