"""Authenticates requests to the provisioning API: by an access token of the homeserver, an OpenID token, or
the shared secret of the operator's programs.

The homeserver is asked for the owner of a token at most once a minute.
"""

import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final

from cachetools import LRUCache

from appservice.homeserver.accounts import openid_token_owner, token_owner
from appservice.homeserver.client import HomeserverClient
from bridge.people.permissions import Level, Rights
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import domain
from federation.matrix.networks import LOOPBACK, Address, Network, is_within, limited_network, read_address
from federation.peers.limits import Buckets, Rate
from storage.concurrency import SingleFlight

MAX_TOKEN_LENGTH: Final = 4_096
MIN_SECRET_LENGTH: Final = 32
_OPENID: Final = "openid:"


@dataclass(frozen=True, slots=True)
class Credentials:
    token: str = field(repr=False)
    is_openid: bool = False

    @property
    def digest(self) -> bytes:
        """The cache key."""
        return sha256(f"{self.is_openid}:{self.token}".encode()).digest()


def read(authorization: Sequence[str]) -> Credentials:
    """Parse the values of the Authorization header. Raises `MatrixError`."""
    # RFC 6750, 2.1: `Bearer`, case-insensitive (RFC 9110, 11.1).
    if not authorization:
        raise MatrixError("M_MISSING_TOKEN", "The request must have an access token of the homeserver.", 401)
    scheme, _, token = authorization[0].strip().partition(" ")
    token = token.strip()
    if len(authorization) > 1 or scheme.lower() != "bearer" or not token:
        raise MatrixError("M_MISSING_TOKEN", "The request must have one token, as `Authorization: Bearer …`.", 401)
    is_openid = token.startswith(_OPENID)
    token = token.removeprefix(_OPENID)
    # No homeserver issues such a token.
    if not 0 < len(token) <= MAX_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise unknown_token()
    return Credentials(token, is_openid)


def is_secret(credentials: Credentials, secret: str | None) -> bool:
    """Compares in constant time."""
    return (
        secret is not None
        and not credentials.is_openid
        and hmac.compare_digest(credentials.token.encode(), secret.encode())
    )


def secret_problem(secret: str) -> str | None:
    """Why the secret cannot be used: a sentence that reveals nothing of it."""
    if len(secret) < MIN_SECRET_LENGTH:
        return f"It needs at least {MIN_SECRET_LENGTH} characters."
    if not secret.isascii() or not secret.isprintable() or " " in secret or secret.startswith(_OPENID):
        return "It has to be one line of printable ASCII characters without spaces."
    return None


def unknown_token() -> MatrixError:
    return MatrixError("M_UNKNOWN_TOKEN", "The homeserver does not know that token.", 401)


OWNER_CACHE_SECONDS: Final = 60.0
"""Seconds for which an owner is cached: a revoked token remains valid that long."""
MAX_CACHED_OWNERS: Final = 10_000
MAX_RATE_LIMIT_KEYS: Final = 20_000
PER_PERSON: Final = Rate(10, 100)
UNKNOWN_TOKENS: Final = Rate(1, 30)
BEHIND_PROXY: Final = Rate(20, 200)


@dataclass(frozen=True, slots=True)
class Limits:
    """`per_person`: requests of one person. `unknown_tokens`: tokens from one address that the homeserver has
    to be asked about and may not know; `behind_proxy` is the same for addresses that many clients share."""

    per_person: Rate = PER_PERSON
    unknown_tokens: Rate = UNKNOWN_TOKENS
    behind_proxy: Rate = BEHIND_PROXY
    shared_addresses: tuple[Network, ...] = LOOPBACK


class Authentication:
    """`is_person` decides whether a user is a person of the homeserver; `secret` is the shared secret, if
    there is one."""

    def __init__(
        self,
        client: HomeserverClient,
        rights: Rights,
        *,
        homeserver: str,
        is_person: Callable[[str], bool],
        secret: str | None = None,
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._rights = rights
        self._homeserver = homeserver
        self._is_person = is_person
        self._secret = secret
        self._limits = limits or Limits()
        self._monotonic = monotonic
        self._owner_cache: LRUCache[bytes, tuple[str, float]] = LRUCache(MAX_CACHED_OWNERS)
        self._querying: SingleFlight[bytes, str | None] = SingleFlight()
        self._unknown_tokens: Buckets[Network | None] = Buckets(MAX_RATE_LIMIT_KEYS)
        self._people: Buckets[str] = Buckets(MAX_RATE_LIMIT_KEYS)

    async def close(self) -> None:
        await self._querying.close()

    async def person(self, authorization: Sequence[str], named: str | None, remote: str | None, needed: Level) -> str:
        """Return the requesting user. `authorization` are the values of the header, `named` is the `user_id`
        of the query, `remote` the address. Raises `MatrixError` unless it is a person with permission for
        this level."""
        credentials = read(authorization)
        if self._secret is not None and is_secret(credentials, self._secret):
            if named is None:
                raise MatrixError("M_MISSING_PARAM", "The query has to name the user in user_id.")
            user = named
        else:
            user = await self._owner(credentials, named, remote)
        if not self._is_person(user):
            raise MatrixError("M_FORBIDDEN", f"This API is for users of {self._homeserver}.", 403)
        refusal = self._rights.of(user).refusal(needed)
        if refusal is not None:
            raise MatrixError("M_FORBIDDEN", refusal, 403)
        excess = self._people.take(user, self._limits.per_person, self._monotonic())
        if excess is not None:
            raise limit_exceeded("Too many requests.", 429, excess.retry_after_ms)
        return user

    async def _owner(self, credentials: Credentials, named: str | None, remote: str | None) -> str:
        known = self._owner_cache.get(credentials.digest)
        if known is not None and self._monotonic() < known[1]:
            user = known[0]
        else:
            user = await self._query_owner(credentials, named, remote)
            self._owner_cache[credentials.digest] = (user, self._monotonic() + OWNER_CACHE_SECONDS)
        if named not in (None, user):
            raise MatrixError("M_FORBIDDEN", "The token does not belong to user_id.", 403)
        return user

    async def _query_owner(self, credentials: Credentials, named: str | None, remote: str | None) -> str:
        if credentials.is_openid and named is not None and domain(named) != self._homeserver:
            # Only the other server could verify it, and its users have no access here.
            raise MatrixError("M_FORBIDDEN", f"This API is for users of {self._homeserver}.", 403)
        key, rate = self._rate_limit(remote)
        excess = self._unknown_tokens.take(key, rate, self._monotonic())
        if excess is not None:
            sentence = "Too many unknown tokens from your address."
            raise limit_exceeded(sentence, 429, excess.retry_after_ms)
        find_owner = openid_token_owner if credentials.is_openid else token_owner
        try:
            user = await self._querying.run(credentials.digest, partial(find_owner, self._client, credentials.token))
        except MatrixError as refused:
            if credentials.is_openid and refused.errcode == "M_UNRECOGNIZED":
                raise MatrixError(
                    "M_UNKNOWN_TOKEN",
                    "The homeserver does not verify OpenID tokens at the address that this node uses: use an"
                    " access token.",
                    401,
                ) from None
            raise
        if user is None:
            raise unknown_token()
        self._unknown_tokens.give_back(key, rate)
        return user

    def _rate_limit(self, remote: str | None) -> tuple[Network | None, Rate]:
        address = _address(remote)
        if address is None or is_within(address, self._limits.shared_addresses):
            return None, self._limits.behind_proxy
        return limited_network(address), self._limits.unknown_tokens


def _address(remote: str | None) -> Address | None:
    try:
        return read_address(remote) if remote else None
    except ValueError:
        return None
