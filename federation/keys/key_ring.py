"""The signing keys of all servers.

Keys are looked up in memory, then in Postgres, then fetched from the server itself, then from the notaries of
the configuration. Concurrent fetches of a server share one request, and failed fetches are retried with a
back-off.

There is one query to a notary at a time; needs that arise meanwhile go into the next query.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from cachetools import LRUCache

from federation.client.client import FederationClient
from federation.keys.fetch_backoff import FetchBackoff
from federation.keys.key_documents import KeyDocument, ServerKey, merge_keys
from federation.keys.key_fetch import KeyFetcher
from federation.keys.server_keys import KeyNeed, LocalKeys, satisfies, unmet_needs
from federation.matrix.errors import PeerError
from federation.matrix.identifiers import is_server_name
from federation.matrix.signatures import KEY_LIFETIME_CAP_MS, VerifyKey, verify_key
from federation.observer import HomeserverObserver
from storage.concurrency import BackgroundTasks, SingleFlight
from storage.database import Database
from storage.federation.server_keys import ServerKeyRow, fetch_documents, fetch_keys, lock_server, store_keys

MAX_SERVERS_PER_QUERY: Final = 100

Needs = Mapping[str, Sequence[KeyNeed]]
QueryNotaries = Callable[[Needs], Awaitable[Mapping[str, Sequence[KeyDocument]]]]


class NotaryQueue:
    """Batches queries to the notaries. `query` leaves out documents that are not available; it raises only
    for errors of this node."""

    def __init__(self, query: QueryNotaries) -> None:
        self._query = query
        self._waiting: dict[str, tuple[Sequence[KeyNeed], asyncio.Future[Sequence[KeyDocument]]]] = {}
        self._tasks = BackgroundTasks(limit=1)

    async def documents(self, server: str, needs: Sequence[KeyNeed]) -> Sequence[KeyDocument]:
        """The documents of the server that the notaries have. Only one call for a server may be pending."""
        assert server not in self._waiting, "one pending query for each server"
        answer: asyncio.Future[Sequence[KeyDocument]] = asyncio.get_running_loop().create_future()
        self._waiting[server] = needs, answer
        if not self._tasks.is_full:
            self._tasks.spawn("keys from notaries", self._work())
        try:
            return await answer
        finally:
            self._waiting.pop(server, None)

    async def close(self) -> None:
        await self._tasks.close()

    async def _work(self) -> None:
        while self._waiting:
            batch = dict(islice(self._waiting.items(), MAX_SERVERS_PER_QUERY))
            for server in batch:
                del self._waiting[server]
            found: Mapping[str, Sequence[KeyDocument]] = {}
            problem: Exception | None = None
            try:
                found = await self._query({server: needs for server, (needs, _) in batch.items()})
            except Exception as error:
                problem = error
            for server, (_, answer) in batch.items():
                if answer.done():
                    continue  # the caller was cancelled
                if problem is not None:
                    answer.set_exception(problem)
                else:
                    answer.set_result(found.get(server, ()))


MAX_CACHED_SERVERS: Final = 10_000
"""Maximum number of servers whose keys are cached in memory; all keys are in Postgres."""
MAX_CONCURRENT_FETCHES: Final = 32
"""Maximum number of concurrent fetches from servers."""

Keys = dict[str, dict[str, VerifyKey]]
"""Keys by server and key id."""


class KeyRing:
    """`notaries`: servers from which the keys of other servers are fetched, in order."""

    def __init__(
        self,
        server_name: str,
        local_keys: Callable[[], LocalKeys],
        client: FederationClient,
        database: Database,
        *,
        now_ms: Callable[[], int],
        notaries: Sequence[str] = (),
        observer: HomeserverObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server_name = server_name
        self._local_keys = local_keys
        self._fetcher = KeyFetcher(client, now_ms, observer)
        self._database = database
        self._now_ms = now_ms
        self._notaries = tuple(notaries)
        self._clock = clock
        self._known: LRUCache[str, dict[str, ServerKey]] = LRUCache(MAX_CACHED_SERVERS)
        self._backoffs: LRUCache[str, FetchBackoff] = LRUCache(MAX_CACHED_SERVERS)
        self._fetching: SingleFlight[str, None] = SingleFlight()
        self._fetch_slots = asyncio.Semaphore(MAX_CONCURRENT_FETCHES)
        self._queue = NotaryQueue(self._query_notaries)

    async def keys_for(self, needs: Iterable[KeyNeed]) -> Keys:
        """The keys of the servers named in `needs`, for verifying events. Unavailable keys are left out.

        Errors of other servers are not raised; the verification then reports the missing keys.
        """
        wanted = tuple(needs)
        if not all(map(self._has, wanted)):
            await self._fetch_missing(wanted)
        keys: Keys = {}
        for server in {need.server for need in wanted}:
            keys[server] = (
                self._local_verify_keys() if server == self._server_name else _for_events(self._cached(server))
            )
        return keys

    async def request_keys(self, server: str, key_ids: Collection[str]) -> dict[str, VerifyKey]:
        """Those of the keys that are valid now, for verifying a request."""
        if server == self._server_name:
            return {}  # a server makes no requests to itself
        now = self._now_ms()
        known = self._known.get(server) or {}
        if not all(key_id in known and known[key_id].valid_until_ts >= now for key_id in key_ids):
            await self._fetch_missing([KeyNeed(server, key_id, now) for key_id in key_ids])
            known = self._cached(server)
        found = {key_id: known[key_id].for_requests(now) for key_id in key_ids if key_id in known}
        return {key_id: key for key_id, key in found.items() if key is not None}

    async def refresh(self, server: str) -> None:
        """Fetch the keys that the server publishes now, even if stored keys are valid. Raises `PeerError`."""
        await self._fetching.run(server, lambda: self._fetch_directly(server))

    async def stored(self, server: str) -> Mapping[str, ServerKey]:
        """All stored keys of a server, without fetching."""
        await self._load([server])
        return self._cached(server)

    async def documents(self, server: str, key_ids: Collection[str]) -> list[bytes]:
        """The stored key documents, signed by the server, that prove these keys."""
        async with self._database.transaction(readonly=True) as connection:
            return await fetch_documents(connection, server, key_ids)

    async def close(self) -> None:
        await self._fetching.close()
        await self._queue.close()

    def _has(self, need: KeyNeed) -> bool:
        known = self._known.get(need.server)
        return known is not None and satisfies(known.get(need.key_id), need, self._now_ms())

    def _cached(self, server: str) -> dict[str, ServerKey]:
        return self._known.get(server) or {}

    def _local_verify_keys(self) -> dict[str, VerifyKey]:
        keys = self._local_keys()
        ends = {keys.current.key_id: (keys.current.public, self._now_ms() + KEY_LIFETIME_CAP_MS)}
        ends |= {old.key_id: (old.public, old.expired_ts) for old in keys.old}
        return {key_id: key for key_id, (public, until) in ends.items() if (key := verify_key(public, until))}

    async def _fetch_missing(self, needs: Sequence[KeyNeed]) -> None:
        """Fetch missing keys. Done twice, because a fetch shared with another caller may have been for other
        keys."""
        for _ in range(2):
            if not (left := self._unsatisfied(needs)):
                return
            await self._load(left)
            left = self._unsatisfied(needs)
            await asyncio.gather(*(self._fetch_once(server, wanted) for server, wanted in left.items()))

    def _unsatisfied(self, needs: Iterable[KeyNeed]) -> dict[str, tuple[KeyNeed, ...]]:
        """The needs that known keys do not satisfy, of servers that may be requested now."""
        known = {need.server: self._cached(need.server) for need in needs}
        now = self._clock()
        return {
            server: wanted
            for server, wanted in unmet_needs(needs, known, self._now_ms()).items()
            if server != self._server_name
            and is_server_name(server)
            and (self._backoffs.get(server) or FetchBackoff()).may_fetch(now)
        }

    async def _fetch_once(self, server: str, needs: Sequence[KeyNeed]) -> None:
        # The shared fetch may be a `refresh`, which raises.
        with contextlib.suppress(PeerError):
            await self._fetching.run(server, lambda: self._fetch(server, needs))

    async def _fetch(self, server: str, needs: Sequence[KeyNeed]) -> None:
        # If the server does not respond, the notaries may have its keys; otherwise the back-off begins.
        with contextlib.suppress(PeerError):
            await self._fetch_directly(server)
        left = unmet_needs(needs, {server: self._cached(server)}, self._now_ms())
        if left and self._notaries and server not in self._notaries:
            await self._store(server, await self._queue.documents(server, left[server]))
            left = unmet_needs(needs, {server: self._cached(server)}, self._now_ms())
        backoff = self._backoffs.get(server) or FetchBackoff()
        self._backoffs[server] = backoff.after_fetch(self._clock(), found=not left)

    async def _fetch_directly(self, server: str) -> None:
        async with self._fetch_slots:
            document = await self._fetcher.from_server(server)
        await self._store(server, [document])

    async def _query_notaries(self, needs: Mapping[str, Sequence[KeyNeed]]) -> dict[str, list[KeyDocument]]:
        """Query the notaries one after the other, until all needs are satisfied."""
        found: dict[str, list[KeyDocument]] = {server: [] for server in needs}
        wanted = [need for of_server in needs.values() for need in of_server]
        for notary in self._notaries:
            known = {
                server: {key.key_id: key for document in documents for key in document.keys}
                for server, documents in found.items()
            }
            if not (missing := unmet_needs(wanted, known, self._now_ms())):
                break
            with contextlib.suppress(PeerError):
                received = await self._fetcher.from_notary(notary, missing, partial(self.request_keys, notary))
                for server, documents in received.items():
                    found[server] += documents
        return found

    async def _load(self, servers: Collection[str]) -> None:
        async with self._database.transaction(readonly=True) as connection:
            rows = await fetch_keys(connection, servers)
        stored: dict[str, dict[str, ServerKey]] = {}
        for row in rows:
            stored.setdefault(row.server_name, {})[row.key_id] = _key(row)
        for server, keys in stored.items():
            self._known[server] = keys

    async def _store(self, server: str, documents: Iterable[KeyDocument]) -> None:
        """Merge fetched keys with the stored ones, which another process may have changed."""
        for document in documents:
            async with self._database.transaction() as connection:
                await lock_server(connection, server)
                known = {row.key_id: _key(row) for row in await fetch_keys(connection, [server])}
                now = self._now_ms()
                merged = {key.key_id: merge_keys(known.get(key.key_id), key, now) for key in document.keys}
                changed = [_row(key) for key_id, key in merged.items() if key != known.get(key_id)]
                if changed:
                    await store_keys(connection, changed, document.document)
            self._known[server] = known | merged


def _for_events(keys: Mapping[str, ServerKey]) -> dict[str, VerifyKey]:
    return {key_id: key.for_events() for key_id, key in keys.items()}


def _key(row: ServerKeyRow) -> ServerKey:
    return ServerKey(
        row.server_name, row.key_id, row.public_key, row.valid_until_ts, row.expired_ts, row.fetched_at, row.source
    )


def _row(key: ServerKey) -> ServerKeyRow:
    return ServerKeyRow(
        key.server, key.key_id, key.public, key.valid_until_ts, key.expired_ts, key.fetched_at, key.source
    )
