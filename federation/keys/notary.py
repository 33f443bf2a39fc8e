"""The notary: returns the keys of other servers, signed by this server.

Requests are not authenticated, so their cost is bounded: a query waits for other servers only for `TIMEOUT`,
the number of concurrent fetches is limited, and a server that had no newer keys is fetched again only after a
back-off. After the timeout the response contains the stored keys. Other notaries are never queried: two
notaries that query each other would never end.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

from cachetools import LRUCache

from federation.keys import notary_query
from federation.keys.fetch_backoff import FetchBackoff
from federation.keys.key_ring import MAX_CACHED_SERVERS, KeyRing
from federation.keys.notary_query import KeyQuery, is_fresh
from federation.keys.server_keys import LocalKeys, make_key_document
from federation.matrix.canonical_json import encode
from federation.matrix.errors import PeerError
from storage.concurrency import BackgroundTasks

MAX_CONCURRENT_FETCHES: Final = 8
"""Maximum number of concurrent fetches on behalf of other servers; fewer than for this server's own needs."""
TIMEOUT: Final = 10.0
"""Seconds that a query waits for fetches."""


class Notary:
    """`may_contact`: whether the configuration allows this node to contact a server."""

    def __init__(
        self,
        server_name: str,
        key_ring: KeyRing,
        local_keys: Callable[[], LocalKeys],
        *,
        now_ms: Callable[[], int],
        may_contact: Callable[[str], bool],
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server_name = server_name
        self._key_ring = key_ring
        self._local_keys = local_keys
        self._now_ms = now_ms
        self._may_contact = may_contact
        self._timeout = timeout
        self._clock = clock
        self._backoffs: LRUCache[str, FetchBackoff] = LRUCache(MAX_CACHED_SERVERS)
        self._fetch_slots = asyncio.Semaphore(MAX_CONCURRENT_FETCHES)
        self._tasks = BackgroundTasks()

    async def close(self) -> None:
        """Close it before the key ring."""
        await self._tasks.close()

    async def query_server(self, server: str, minimum: str | None) -> bytes:
        """The response to a query for one server. Raises `MatrixError` for an invalid query."""
        return await self._respond([notary_query.parse_single(server, minimum, self._now_ms())])

    async def query_servers(self, body: object) -> bytes:
        """The response to a query for several servers. Raises `MatrixError` for an invalid query."""
        return await self._respond(notary_query.parse_many(body, self._now_ms()))

    async def _respond(self, wanted: Sequence[KeyQuery]) -> bytes:
        found = await asyncio.gather(*map(self._documents, wanted))
        documents = (document for of_server in found for document in of_server)
        key = self._local_keys().current
        return notary_query.encode_response(notary_query.sign_documents(documents, self._server_name, key))

    async def _documents(self, wanted: KeyQuery) -> Sequence[bytes]:
        """The key documents of the server. Empty if none is stored, or the server may not be contacted."""
        server = wanted.server
        if server == self._server_name:
            return [encode(make_key_document(server, self._local_keys(), self._now_ms()))]
        if not self._may_contact(server):
            return ()
        if not is_fresh(await self._key_ring.stored(server), wanted, self._now_ms()):
            await self._refresh(wanted)
        known = await self._key_ring.stored(server)
        return await self._key_ring.documents(server, wanted.key_ids or list(known))

    async def _refresh(self, wanted: KeyQuery) -> None:
        """Fetch the keys of the server, unless there is a back-off, and wait at most `TIMEOUT`."""
        if not self._backoff(wanted.server).may_fetch(self._clock()):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                await self._fetch_slots.acquire()
                # The fetch continues after the timeout, so that its result is stored for the next query.
                fetch = self._tasks.spawn("keys of another server", self._fetch(wanted))
                fetch.add_done_callback(lambda _: self._fetch_slots.release())
                await asyncio.shield(fetch)

    async def _fetch(self, wanted: KeyQuery) -> None:
        server = wanted.server
        with contextlib.suppress(PeerError):
            await self._key_ring.refresh(server)
        is_better = is_fresh(await self._key_ring.stored(server), wanted, self._now_ms())
        self._backoffs[server] = self._backoff(server).after_fetch(self._clock(), found=is_better)

    def _backoff(self, server: str) -> FetchBackoff:
        return self._backoffs.get(server) or FetchBackoff()
