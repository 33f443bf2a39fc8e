"""Asks other servers: signed requests to a server name, answers as JSON or as a stream of bytes.

Server-server API, "Request Authentication" and "API standards".
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

import aiohttp

from federation.client.connections import PeerConnections
from federation.client.errors import (
    PeerMalformed,
    PeerNotAllowed,
    PeerTimedOut,
    PeerUnreachable,
    outcome_of,
    peer_error,
    refusal,
)
from federation.client.requests import Content, RequestTarget, authorization, encoded
from federation.client.resolver import Resolver
from federation.keys.server_keys import OwnKeys
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import PeerError
from federation.observer import HomeserverObserver

MIB: Final = 1024 * 1024
SMALL: Final = MIB
"""Bytes: more than any answer that does not carry a room's state."""
LARGE: Final = 100 * MIB
"""Bytes: the state of a room with a hundred thousand members."""
TIMEOUT: Final = 60.0
"""Seconds, for finding the way, all candidates and the whole answer. As in Synapse."""

_MOST_OF_AN_ERROR: Final = 64 * 1024
# Reading more than this at once would keep everything else waiting; a thread does it.
_READ_AT_ONCE: Final = 256 * 1024


class ClientWitness(Protocol):
    """Implemented by whoever keeps a record."""

    async def request_ended(
        self,
        peer: str,
        method: str,
        target: RequestTarget,
        content: Content,
        problem: BaseException | None,
    ) -> None:
        """`problem` is None when it was answered well. Whoever asked waits for this; it raises nothing."""


class PeerStream:
    """An answer whose body has not been read. `content_type` is what the peer calls it."""

    def __init__(self, peer: str, response: aiohttp.ClientResponse) -> None:
        self._peer = peer
        self._response = response
        self.headers = response.headers
        self.content_type = response.headers.get("Content-Type", "application/octet-stream")

    async def chunks(self, limit: int, size: int = 64 * 1024) -> AsyncIterator[bytes]:
        """The body piece by piece. Raises `PeerMalformed` once it is more than `limit`."""
        content = self.content(limit)
        while chunk := await content.read(size):
            yield chunk

    def content(self, limit: int) -> aiohttp.StreamReader:
        """The body, to be read otherwise. Reading raises `PeerMalformed` once it is more than `limit`."""
        length = self._response.content_length
        if length is not None and length > limit:
            raise _too_large(self._peer, limit)
        return _Limited(self._peer, self._response.content, limit)


class _Limited(aiohttp.StreamReader):
    """Reads from another one, and raises `PeerError`."""

    def __init__(self, peer: str, content: aiohttp.StreamReader, limit: int) -> None:
        # Without that of the base class, which makes a buffer of its own.
        self._peer = peer
        self._content = content
        self._limit = self._left = limit

    async def read(self, n: int = -1) -> bytes:
        return await self._count(self._content.read(n))

    async def readline(self, *, max_line_length: int | None = None) -> bytes:
        return await self._count(self._content.readline(max_line_length=max_line_length))

    def unread_data(self, data: bytes) -> None:
        self._left += len(data)
        self._content.unread_data(data)

    def at_eof(self) -> bool:
        return self._content.at_eof()

    async def _count(self, reading: Awaitable[bytes]) -> bytes:
        try:
            data = await reading
        except (aiohttp.ClientError, OSError) as error:
            raise peer_error(self._peer, error) from error
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._peer, self._limit)
        return data


class FederationClient:
    """`may_contact` is the configuration's word on which servers this node speaks with."""

    def __init__(
        self,
        server_name: str,
        own_keys: Callable[[], OwnKeys],
        resolver: Resolver,
        connections: PeerConnections,
        *,
        may_contact: Callable[[str], bool],
        observer: HomeserverObserver | None = None,
        witness: ClientWitness | None = None,
    ) -> None:
        self._server_name = server_name
        self._own_keys = own_keys
        self._resolver = resolver
        self._connections = connections
        self._may_contact = may_contact
        self._observer = observer or HomeserverObserver()
        self._witness = witness

    async def request(
        self,
        method: str,
        destination: str,
        target: RequestTarget,
        content: Content = None,
        *,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - it covers discovery too, and becomes a PeerError
        limit: int = SMALL,
        signed: bool = True,
    ) -> dict[str, Any]:
        """The answer's JSON object. Raises `PeerError`; a status that is not 2xx is a `PeerRefused`.

        `content` is None for a GET and nothing else: a PUT or POST carries at least `{}`.
        """
        async with self._exchange(method, destination, target, content, timeout, signed) as response:
            answer = await _read_json(destination, response, limit)
            if not isinstance(answer, dict):
                raise PeerMalformed(destination, "answered with something that is not a JSON object")
            return answer

    @contextlib.asynccontextmanager
    async def stream(
        self,
        destination: str,
        target: RequestTarget,
        *,
        timeout: float = 600.0,  # noqa: ASYNC109 - see above
        idle: float = 30.0,
        signed: bool = True,
    ) -> AsyncIterator[PeerStream]:
        """A GET whose answer may be large and is no JSON. `idle`: seconds that may pass without a byte."""
        async with self._exchange("GET", destination, target, None, timeout, signed, idle) as response:
            yield PeerStream(destination, response)

    @contextlib.asynccontextmanager
    async def _exchange(
        self,
        method: str,
        destination: str,
        target: RequestTarget,
        content: Content,
        patience: float,
        signed: bool,
        idle: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The whole of a request, and a record of it."""
        problem: BaseException | None = None
        try:
            async with self._counted(
                method, destination, target, content, patience, signed, idle
            ) as response:
                yield response
        except BaseException as error:
            problem = error
            raise
        finally:
            if self._witness is not None:
                await self._witness.request_ended(destination, method, target, content, problem)

    @contextlib.asynccontextmanager
    async def _counted(
        self,
        method: str,
        destination: str,
        target: RequestTarget,
        content: Content,
        patience: float,
        signed: bool,
        idle: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Counted and in time; the answer has a good status."""
        assert (content is None) == (method == "GET"), "a PUT or POST carries JSON, a GET nothing"
        began = time.monotonic()
        problem: PeerError | None = None
        deadline = asyncio.timeout(patience)
        try:
            async with deadline:
                response = await self._send(method, destination, target.uri, encoded(content), signed, idle)
                async with response:
                    if not 200 <= response.status < 300:
                        raise await _refusal(destination, response)
                    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                        raise PeerMalformed(destination, "answered compressed, which was not asked for")
                    yield response
        except PeerError as error:
            problem = error
            raise
        except TimeoutError as error:
            if not deadline.expired():
                raise  # of whoever reads the stream
            problem = PeerTimedOut(destination, "took too long to answer")
            raise problem from error
        finally:
            seconds = time.monotonic() - began
            self._observer.request_ended(target.template, method, outcome_of(problem), seconds)

    async def _send(
        self, method: str, destination: str, uri: str, body: bytes | None, signed: bool, idle: float | None
    ) -> aiohttp.ClientResponse:
        if destination == self._server_name or not self._may_contact(destination):
            raise PeerNotAllowed(destination, "is not a server that this one speaks with")
        route = await self._resolver.route(destination)
        headers = {}
        if signed:
            key = self._own_keys().current
            headers["Authorization"] = authorization(method, uri, self._server_name, destination, body, key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            return await self._connections.send(
                destination, route, method, uri, headers=headers, body=body, idle=idle
            )
        except PeerUnreachable:
            self._resolver.led_nowhere(destination)
            raise


async def _read_json(peer: str, response: aiohttp.ClientResponse, limit: int) -> Any:
    body = b"".join([chunk async for chunk in PeerStream(peer, response).chunks(limit)])
    try:
        return await asyncio.to_thread(decode, body) if len(body) > _READ_AT_ONCE else decode(body)
    except NotJson as error:
        raise PeerMalformed(peer, "answered with something that is not JSON") from error


def _too_large(peer: str, limit: int) -> PeerMalformed:
    return PeerMalformed(peer, f"answered with more than the {limit} bytes that were expected")


async def _refusal(peer: str, response: aiohttp.ClientResponse) -> PeerError:
    """What a bad status says. Its body is looked at as far as it is one."""
    content = None
    with contextlib.suppress(PeerMalformed, PeerUnreachable):
        content = await _read_json(peer, response, _MOST_OF_AN_ERROR)
    return refusal(peer, response.status, content, response.headers)
