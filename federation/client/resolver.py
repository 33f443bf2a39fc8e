"""Finds and caches routes to other servers by running the generator of `server_discovery`.

It does not decide which servers may be contacted; the caller does.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import aiohttp
from cachetools import LRUCache
from yarl import URL

from federation.client import well_known
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.errors import PeerUnreachable
from federation.client.peer_settings import ConfiguredPeers
from federation.client.server_discovery import (
    MAX_LIFETIME,
    DiscoveryAnswer,
    DiscoveryQuery,
    NoRoute,
    Route,
    WellKnownAnswer,
    WellKnownQuery,
    configured_route,
    discover,
)
from federation.client.srv_records import MAX_RECORDS
from federation.matrix.errors import PeerError
from storage.concurrency import SingleFlight

# Seconds for a well-known request with all its redirects.
TIMEOUT: Final = 15.0
MAX_CACHED: Final = 10_000
# Age in seconds from which the route to an unreachable server is discovered again.
MIN_RETRY_AGE: Final = 60.0

_random = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class DiscoveryTrace:
    """The steps of a server discovery: the queries with their answers, and the resulting route."""

    queries: tuple[tuple[DiscoveryQuery, DiscoveryAnswer], ...]
    route: Route | NoRoute


@dataclass(frozen=True, slots=True)
class _CachedRoute:
    route: Route | NoRoute
    at: float
    until: float


class Resolver:
    """Finds routes to servers. `well_known_port` is 443 except in tests."""

    def __init__(
        self,
        connections: PeerConnections,
        dns: Dns,
        peers: ConfiguredPeers,
        *,
        well_known_port: int = 443,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._dns = dns
        self._peers = peers
        self._port = well_known_port
        self._clock = clock
        self._found: LRUCache[str, _CachedRoute] = LRUCache(MAX_CACHED)
        self._failures: LRUCache[str, int] = LRUCache(MAX_CACHED)
        self._discoveries: SingleFlight[str, Route | NoRoute] = SingleFlight()

    async def route(self, server_name: str) -> Route:
        """The route to a server, cached if possible. Raises `PeerUnreachable` if there is none."""
        found = self._found.get(server_name)
        if found is not None and self._clock() < found.until:
            route = found.route
        else:
            route = await self._discoveries.run(server_name, lambda: self._discover_and_cache(server_name, found))
        if isinstance(route, NoRoute):
            raise PeerUnreachable(server_name, route.reason)
        return route

    def mark_unreachable(self, server_name: str) -> None:
        """Let the cached route expire early, since the server could not be reached and may have moved."""
        found = self._found.get(server_name)
        if found is not None:
            until = min(found.until, found.at + MIN_RETRY_AGE)
            self._found[server_name] = _CachedRoute(found.route, found.at, until)

    def invalidate(self, server_name: str) -> None:
        """Remove the cached route, so that it is discovered again when it is needed next."""
        self._found.pop(server_name, None)

    async def trace(self, server_name: str) -> DiscoveryTrace:
        """Discover the route now, regardless of the cache, and return all steps. A route that is not
        provisional replaces the cached one."""
        queries: list[tuple[DiscoveryQuery, DiscoveryAnswer]] = []
        route = await self._discover(server_name, queries)
        if not route.provisional:
            now = self._clock()
            self._found[server_name] = _CachedRoute(route, now, now + route.lifetime)
        return DiscoveryTrace(tuple(queries), route)

    async def close(self) -> None:
        await self._discoveries.close()

    async def _discover_and_cache(self, server_name: str, before: _CachedRoute | None) -> Route | NoRoute:
        route = await self._discover(server_name, [])
        now = self._clock()
        if route.provisional and before is not None and not before.route.provisional and now < before.at + MAX_LIFETIME:
            # An older certain route is better than a provisional one, found while name servers do not answer.
            self._found[server_name] = _CachedRoute(before.route, before.at, now + min(route.lifetime, 300.0))
            return before.route
        self._found[server_name] = _CachedRoute(route, now, now + route.lifetime)
        return route

    async def _discover(
        self, server_name: str, queries: list[tuple[DiscoveryQuery, DiscoveryAnswer]]
    ) -> Route | NoRoute:
        """Run the discovery, and append its queries and answers to `queries`."""
        address = self._peers.of(server_name).address
        if address:
            return configured_route(server_name, address)
        discovery = discover(server_name, [_random.random() for _ in range(MAX_RECORDS)])
        try:
            question = next(discovery)
            while True:
                answer = await self._answer(question)
                queries.append((question, answer))
                question = discovery.send(answer)
        except StopIteration as end:
            route: Route | NoRoute = end.value
            return route

    async def _answer(self, question: DiscoveryQuery) -> DiscoveryAnswer:
        if isinstance(question, WellKnownQuery):
            return await self._well_known(question.host)
        return await self._dns.srv(question.name)

    async def _well_known(self, host: str) -> WellKnownAnswer:
        failures = self._failures.get(host) or 0
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._follow(host, failures)
        except PeerError as error:
            answer = well_known.no_delegation(error.problem, failures)
        except (TimeoutError, aiohttp.ClientError, OSError):
            answer = well_known.no_delegation("took too long to answer, or closed the connection", failures)
        if answer.delegated is None:
            self._failures[host] = failures + 1
        else:
            self._failures.pop(host, None)
        return answer

    async def _follow(self, host: str, failures: int) -> WellKnownAnswer:
        """ "30x redirects should be followed, however redirection loops should be avoided." """
        url: URL | None = well_known.well_known_url(host, self._port)
        for _ in range(well_known.MAX_REDIRECTS + 1):
            if url is None:
                break
            async with await self._connections.get(url, host) as response:
                if not 300 <= response.status < 400:
                    body = await _read_start(response)
                    now = datetime.now(UTC)
                    return well_known.parse_response(response.status, response.headers, body, now, failures)
                url = well_known.redirect_url(url, response.headers.get("Location"))
        # The host has answered without a delegation, so this is not a temporary failure.
        return well_known.no_delegation("redirects in a loop, or not to https", failures, failed=False)


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    """Read the body up to the size limit, and one byte more if it is larger."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(16 * 1024):
        body += chunk
        if len(body) > well_known.MAX_BYTES:
            break
    return bytes(body[: well_known.MAX_BYTES + 1])
