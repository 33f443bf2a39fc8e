"""Finds the way to a server and remembers it: runs the conversation of `server_discovery`.

Closed or open, that is not decided here; a way is looked for when somebody who may asks for it.
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
from federation.client.peer_settings import Peers
from federation.client.server_discovery import (
    LONGEST,
    Answer,
    AskWellKnown,
    NoRoute,
    Question,
    Route,
    WellKnownAnswer,
    configured,
    discover,
)
from federation.client.srv_records import MOST_RECORDS
from federation.matrix.errors import PeerError
from storage.concurrency import SingleFlight

# Seconds for a well-known with all its redirects.
PATIENCE: Final = 15.0
MOST_REMEMBERED: Final = 10_000
# A way that led nowhere is not looked for again before it is this old, in seconds.
YOUNGEST_DOUBTED: Final = 60.0

_random = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Explained:
    """What was asked on the way, what was answered, and where that leads."""

    asked: tuple[tuple[Question, Answer], ...]
    route: Route | NoRoute


@dataclass(frozen=True, slots=True)
class _Found:
    route: Route | NoRoute
    at: float
    until: float


class Resolver:
    """`well_known_port` is 443; only a test has its own."""

    def __init__(
        self,
        connections: PeerConnections,
        dns: Dns,
        peers: Peers,
        *,
        well_known_port: int = 443,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._dns = dns
        self._peers = peers
        self._port = well_known_port
        self._clock = clock
        self._found: LRUCache[str, _Found] = LRUCache(MOST_REMEMBERED)
        self._failures: LRUCache[str, int] = LRUCache(MOST_REMEMBERED)
        self._looking: SingleFlight[str, Route | NoRoute] = SingleFlight()

    async def route(self, server_name: str) -> Route:
        """The way there. Raises `PeerUnreachable` when there is none."""
        found = self._found.get(server_name)
        if found is not None and self._clock() < found.until:
            route = found.route
        else:
            route = await self._looking.run(server_name, lambda: self._look(server_name, found))
        if isinstance(route, NoRoute):
            raise PeerUnreachable(server_name, route.reason)
        return route

    def led_nowhere(self, server_name: str) -> None:
        """Nobody was found at the end of the way: the server may have moved since it was looked for."""
        found = self._found.get(server_name)
        if found is not None:
            until = min(found.until, found.at + YOUNGEST_DOUBTED)
            self._found[server_name] = _Found(found.route, found.at, until)

    def forget(self, server_name: str) -> None:
        """Somebody says that it has moved: the way is looked for anew when it is needed next."""
        self._found.pop(server_name, None)

    async def explained(self, server_name: str) -> Explained:
        """Look for the way now, whatever is remembered, and say how it was found. What was found for sure is
        the way from here on."""
        asked: list[tuple[Question, Answer]] = []
        route = await self._discovered(server_name, asked)
        if not route.provisional:
            now = self._clock()
            self._found[server_name] = _Found(route, now, now + route.lifetime)
        return Explained(tuple(asked), route)

    async def close(self) -> None:
        await self._looking.close()

    async def _look(self, server_name: str, before: _Found | None) -> Route | NoRoute:
        route = await self._discovered(server_name, [])
        now = self._clock()
        if (
            route.provisional
            and before is not None
            and not before.route.provisional
            and now < before.at + LONGEST
        ):
            # What was certain a while ago is better than what is left when name servers don't answer.
            self._found[server_name] = _Found(before.route, before.at, now + min(route.lifetime, 300.0))
            return before.route
        self._found[server_name] = _Found(route, now, now + route.lifetime)
        return route

    async def _discovered(self, server_name: str, asked: list[tuple[Question, Answer]]) -> Route | NoRoute:
        """`asked` is added to."""
        address = self._peers.of(server_name).address
        if address:
            return configured(server_name, address)
        conversation = discover(server_name, [_random.random() for _ in range(MOST_RECORDS)])
        try:
            question = next(conversation)
            while True:
                answer = await self._answer(question)
                asked.append((question, answer))
                question = conversation.send(answer)
        except StopIteration as end:
            route: Route | NoRoute = end.value
            return route

    async def _answer(self, question: Question) -> Answer:
        if isinstance(question, AskWellKnown):
            return await self._well_known(question.host)
        return await self._dns.srv(question.name)

    async def _well_known(self, host: str) -> WellKnownAnswer:
        failures = self._failures.get(host) or 0
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._follow(host, failures)
        except PeerError as error:
            answer = well_known.no_answer(error.problem, failures)
        except (TimeoutError, aiohttp.ClientError, OSError):
            answer = well_known.no_answer("took too long to answer, or broke off", failures)
        if answer.delegated is None:
            self._failures[host] = failures + 1
        else:
            self._failures.pop(host, None)
        return answer

    async def _follow(self, host: str, failures: int) -> WellKnownAnswer:
        """ "30x redirects should be followed, however redirection loops should be avoided." """
        url: URL | None = well_known.first_url(host, self._port)
        for _ in range(well_known.MOST_REDIRECTS + 1):
            if url is None:
                break
            async with await self._connections.get(url, host) as response:
                if not 300 <= response.status < 400:
                    body = await _beginning(response)
                    now = datetime.now(UTC)
                    return well_known.read(response.status, response.headers, body, now, failures)
                url = well_known.next_url(url, response.headers.get("Location"))
        # Somebody answered, and not with a delegation.
        return well_known.no_answer("redirects in circles, or to anything but https", failures, failed=False)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """As much of the body as is looked at, and one byte more if there is more."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(16 * 1024):
        body += chunk
        if len(body) > well_known.MAX_BYTES:
            break
    return bytes(body[: well_known.MAX_BYTES + 1])
