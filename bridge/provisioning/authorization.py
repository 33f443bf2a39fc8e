"""What somebody shows who asks: an access token of the homeserver, a token by which a user shows to others
who he is, or a secret that programs have from the operator.

Who asks. The homeserver knows whose a token is; it is asked once a minute.
"""

import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final

from cachetools import LRUCache

from appservice.homeserver.accounts import owner, owner_of_openid
from appservice.homeserver.client import HomeserverClient
from bridge.people.permissions import Level, Rights
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import domain
from federation.matrix.networks import LOOPBACK, Address, Network, is_within, limited_network, read_address
from federation.peers.limits import Buckets, Rate
from storage.concurrency import SingleFlight

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


BELIEVED: Final = 60.0
"""Seconds for which the homeserver is not asked again: as long as a token that was taken back may go on."""
MOST_BELIEVED: Final = 10_000
MOST_TOLD_APART: Final = 20_000
OF_PERSON: Final = Rate(10, 100)
STRANGERS: Final = Rate(1, 30)
BEHIND_PROXY: Final = Rate(20, 200)


@dataclass(frozen=True, slots=True)
class Limits:
    """`of_person`: what one person may ask. `strangers`: tokens from one address that have to be shown to the
    homeserver and may be nobody's; `behind_proxy` is the same for addresses behind which many stand."""

    of_person: Rate = OF_PERSON
    strangers: Rate = STRANGERS
    behind_proxy: Rate = BEHIND_PROXY
    shared_addresses: tuple[Network, ...] = LOOPBACK


class Authentication:
    """`is_person` says who lives on the homeserver; `secret` is what programs show, if there is one."""

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
        self._believed: LRUCache[bytes, tuple[str, float]] = LRUCache(MOST_BELIEVED)
        self._asking: SingleFlight[bytes, str | None] = SingleFlight()
        self._strangers: Buckets[Network | None] = Buckets(MOST_TOLD_APART)
        self._people: Buckets[str] = Buckets(MOST_TOLD_APART)

    async def close(self) -> None:
        await self._asking.close()

    async def person(
        self, authorization: Sequence[str], named: str | None, remote: str | None, needed: Level
    ) -> str:
        """The user who asks. `authorization` are the headers of that name, `named` is the user of the query,
        `remote` the address. Raises `MatrixError` unless it is a person who may do what takes this level."""
        shown = read(authorization)
        if self._secret is not None and is_secret(shown, self._secret):
            if named is None:
                raise MatrixError("M_MISSING_PARAM", "Say with user_id as whom you ask.")
            user = named
        else:
            user = await self._owner(shown, named, remote)
        if not self._is_person(user):
            raise MatrixError("M_FORBIDDEN", f"This is for the people of {self._homeserver}.", 403)
        refusal = self._rights.of(user).refusal(needed)
        if refusal is not None:
            raise MatrixError("M_FORBIDDEN", refusal, 403)
        excess = self._people.take(user, self._limits.of_person, self._monotonic())
        if excess is not None:
            raise limit_exceeded("You ask too often.", 429, excess.retry_after_ms)
        return user

    async def _owner(self, shown: Shown, named: str | None, remote: str | None) -> str:
        known = self._believed.get(shown.digest)
        if known is not None and self._monotonic() < known[1]:
            user = known[0]
        else:
            user = await self._asked(shown, named, remote)
            self._believed[shown.digest] = (user, self._monotonic() + BELIEVED)
        if named not in (None, user):
            raise MatrixError("M_FORBIDDEN", "The token is another user's than user_id says.", 403)
        return user

    async def _asked(self, shown: Shown, named: str | None, remote: str | None) -> str:
        if shown.is_openid and named is not None and domain(named) != self._homeserver:
            # It would have to be asked of another server, and nobody of that one has anything to do here.
            raise MatrixError("M_FORBIDDEN", f"This is for the people of {self._homeserver}.", 403)
        where, rate = self._counted(remote)
        excess = self._strangers.take(where, rate, self._monotonic())
        if excess is not None:
            sentence = "Too many tokens from your address were nobody's."
            raise limit_exceeded(sentence, 429, excess.retry_after_ms)
        ask = owner_of_openid if shown.is_openid else owner
        try:
            user = await self._asking.run(shown.digest, partial(ask, self._client, shown.token))
        except MatrixError as refused:
            if shown.is_openid and refused.errcode == "M_UNRECOGNIZED":
                raise MatrixError(
                    "M_UNKNOWN_TOKEN",
                    "The homeserver does not say whose OpenID tokens are where this node reaches it: show an"
                    " access token.",
                    401,
                ) from None
            raise
        if user is None:
            raise unknown_token()
        self._strangers.give_back(where, rate)
        return user

    def _counted(self, remote: str | None) -> tuple[Network | None, Rate]:
        address = _address(remote)
        if address is None or is_within(address, self._limits.shared_addresses):
            return None, self._limits.behind_proxy
        return limited_network(address), self._limits.strangers


def _address(remote: str | None) -> Address | None:
    try:
        return read_address(remote) if remote else None
    except ValueError:
        return None
