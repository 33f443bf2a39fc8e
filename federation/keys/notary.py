"""Vouches for the keys of other servers to whoever asks.

Anybody may ask, so nobody may keep us busy with it: a question waits for other servers only so long, only so
many of them are asked at a time, and one that had no better answer is left alone for a while. What is not
there by then is answered from what is stored. Other notaries are never asked: two that relied on each other
would turn in a circle.
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
"""How many servers are asked at a time on behalf of others: fewer than for our own needs."""
TIMEOUT: Final = 10.0
"""Seconds that a question waits."""


class Notary:
    """`may_contact` is the configuration's word on which servers this node has to do with."""

    def __init__(
        self,
        server_name: str,
        key_ring: KeyRing,
        own_keys: Callable[[], LocalKeys],
        *,
        now_ms: Callable[[], int],
        may_contact: Callable[[str], bool],
        patience: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server_name = server_name
        self._key_ring = key_ring
        self._own_keys = own_keys
        self._now_ms = now_ms
        self._may_contact = may_contact
        self._patience = patience
        self._clock = clock
        self._gates: LRUCache[str, FetchBackoff] = LRUCache(MAX_CACHED_SERVERS)
        self._places = asyncio.Semaphore(MAX_CONCURRENT_FETCHES)
        self._tasks = BackgroundTasks()

    async def close(self) -> None:
        """Before the key ring is."""
        await self._tasks.close()

    async def single(self, server: str, minimum: str | None) -> bytes:
        """The answer to the question for one server. Refuses with `MatrixError`."""
        return await self._answer([notary_query.parse_single(server, minimum, self._now_ms())])

    async def many(self, body: object) -> bytes:
        """The answer to a question for several servers. Refuses with `MatrixError`."""
        return await self._answer(notary_query.parse_many(body, self._now_ms()))

    async def _answer(self, wanted: Sequence[KeyQuery]) -> bytes:
        found = await asyncio.gather(*map(self._documents, wanted))
        documents = (document for of_server in found for document in of_server)
        key = self._own_keys().current
        return notary_query.encode_response(notary_query.sign_documents(documents, self._server_name, key))

    async def _documents(self, wanted: KeyQuery) -> Sequence[bytes]:
        """What the server has published. Empty when nothing is known of it, or nothing is to be."""
        server = wanted.server
        if server == self._server_name:
            return [encode(make_key_document(server, self._own_keys(), self._now_ms()))]
        if not self._may_contact(server):
            return ()
        if not is_fresh(await self._key_ring.known(server), wanted, self._now_ms()):
            await self._refresh(wanted)
        known = await self._key_ring.known(server)
        return await self._key_ring.documents(server, wanted.key_ids or list(known))

    async def _refresh(self, wanted: KeyQuery) -> None:
        """Ask the server, if it may be asked, and wait for it a while."""
        if not self._gate(wanted.server).is_open(self._clock()):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
                # It keeps its place until it is over, also when nobody waits any more: whoever asks next then
                # finds what it brought.
                fetch = self._tasks.spawn("keys of another server", self._fetch(wanted))
                fetch.add_done_callback(lambda _: self._places.release())
                await asyncio.shield(fetch)

    async def _fetch(self, wanted: KeyQuery) -> None:
        server = wanted.server
        with contextlib.suppress(PeerError):
            await self._key_ring.refresh(server)
        is_better = is_fresh(await self._key_ring.known(server), wanted, self._now_ms())
        self._gates[server] = self._gate(server).after(self._clock(), found=is_better)

    def _gate(self, server: str) -> FetchBackoff:
        return self._gates.get(server) or FetchBackoff()
