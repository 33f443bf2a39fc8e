"""Transactions to servers to which many go: each is written at once to a connection that is kept for them.

That is the way for what is usual. Whatever is not, from finding the server to an answer in chunks, is left to
the client's other way, which a transaction may take after this one: it may come twice under its id.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from federation.bounded_cache import BoundedCache
from federation.errors import PeerError
from federation.outgoing_request import Signer
from federation.peer_errors import PeerMalformed, PeerTimedOut, PeerUnreachable, refusal
from federation.server_keys import OwnKeys
from federation.service.kept_connection import Answer, BrokenOff, KeptConnection, Unusual
from federation.service.peer_answers import is_object, read_json, too_large
from federation.service.peer_connections import KEEP, PeerConnections
from federation.service.resolver import Resolver

MOST_OF_A_BODY: Final = 256 * 1024
"""Bytes of a request that is written in one piece."""
MOST_OF_AN_ANSWER: Final = 1024 * 1024
MOST_REMEMBERED: Final = 1_000


class Begun(NamedTuple):
    """It has been written, and what comes of it."""

    connection: KeptConnection
    answer: asyncio.Future[Answer]


class TransactionExchange:
    def __init__(
        self,
        server_name: str,
        own_keys: Callable[[], OwnKeys],
        resolver: Resolver,
        connections: PeerConnections,
        may_contact: Callable[[str], bool],
    ) -> None:
        self._server_name = server_name
        self._own_keys = own_keys
        self._resolver = resolver
        self._connections = connections
        self._may_contact = may_contact
        self._signers: BoundedCache[str, Signer] = BoundedCache(MOST_REMEMBERED)
        # When a transaction was answered that went the other way, and who has answered in an unusual way.
        self._answered: BoundedCache[str, float] = BoundedCache(MOST_REMEMBERED)
        self._unusual: BoundedCache[str, bool] = BoundedCache(MOST_REMEMBERED)

    def begin(self, destination: str, uri: str, body: bytes) -> Begun | None:
        """Written now; None where there is no connection for it."""
        route = self._resolver.known(destination)
        connection = None if route is None else self._connections.kept(destination, route)
        if connection is None or len(body) > MOST_OF_A_BODY or not self._may_contact(destination):
            return None
        key = self._own_keys().current
        signer = self._signers.get(destination)
        if signer is None or signer.key is not key:
            signer = Signer("PUT", self._server_name, destination, key)
            self._signers.put(destination, signer)
        return Begun(connection, connection.put(uri, signer.authorization(uri, body), body))

    async def begin_anew(self, destination: str, uri: str, body: bytes) -> Begun | None:
        """As `begin`, over a new connection where it is worth one: to a server that has answered lately."""
        answered_at = self._answered.get(destination)
        if answered_at is not None and time.monotonic() - answered_at < KEEP:
            route = self._resolver.known(destination)
            if route is not None and self._may_contact(destination):
                await self._connections.keep(destination, route, limit=MOST_OF_AN_ANSWER)
        return self.begin(destination, uri, body)

    def answered(self, destination: str) -> None:
        """A transaction that went the other way."""
        if self._unusual.get(destination) is None:
            self._answered.put(destination, time.monotonic())

    async def answer(self, destination: str, begun: Begun, patience: float) -> dict[str, Any] | None:
        """The answer's JSON object. Raises `PeerError`. None: it has to go the other way."""
        timer = asyncio.get_running_loop().call_later(patience, _too_late, begun.answer)
        try:
            answer = await begun.answer
        except Unusual:
            self._unusual.put(destination, True)
            self._answered.forget(destination)
            return None
        except BrokenOff as broken:
            self._answered.forget(destination)
            if broken.began:
                raise PeerUnreachable(destination, "broke off the connection") from broken
            # It may be one that the server was just closing.
            return None
        except TimeoutError as error:
            begun.connection.abort()
            raise PeerTimedOut(destination, "took too long to answer") from error
        except BaseException:
            begun.connection.abort()
            raise
        finally:
            timer.cancel()
        if not 200 <= answer.head.status < 300:
            raise await _refusal(destination, answer)
        if answer.body is None:
            raise too_large(destination, MOST_OF_AN_ANSWER)
        return is_object(destination, await read_json(destination, answer.body))


def _too_late(answer: asyncio.Future[Answer]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


async def _refusal(peer: str, answer: Answer) -> PeerError:
    content = None
    if answer.body is not None:
        with contextlib.suppress(PeerMalformed):
            content = await read_json(peer, answer.body)
    later = answer.head.headers.get("retry-after")
    return refusal(peer, answer.head.status, content, {} if later is None else {"Retry-After": later})
