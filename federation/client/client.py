"""Sends signed requests to other servers, and returns responses as JSON or as a stream of bytes.

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
from federation.client.requests import Content, RequestTarget, authorization, encode_body
from federation.client.resolver import Resolver
from federation.keys.server_keys import LocalKeys
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import PeerError
from federation.observer import HomeserverObserver

MIB: Final = 1024 * 1024
SMALL: Final = MIB
"""Bytes: more than any response without a room's state."""
LARGE: Final = 100 * MIB
"""Bytes: the state of a room with a hundred thousand members."""
TIMEOUT: Final = 60.0
"""Seconds for server discovery, all connection attempts and the whole response. As in Synapse."""

_MAX_ERROR_BYTES: Final = 64 * 1024
# A larger body is decoded in a thread, so that it does not block the event loop.
_MAX_INLINE_DECODE: Final = 256 * 1024


class RequestRecorder(Protocol):
    """Records requests to other servers. Implemented by `federation.peers.audit_trail.AuditTrail`."""

    async def request_ended(
        self, peer: str, method: str, target: RequestTarget, content: Content, problem: BaseException | None
    ) -> None:
        """Record a request. `problem` is None if it succeeded. The caller of the request waits for this
        method, which must not raise."""


class StreamedResponse:
    """A response whose body has not been read. `content_type` is the header that the peer has sent."""

    def __init__(self, peer: str, response: aiohttp.ClientResponse) -> None:
        self._peer = peer
        self._response = response
        self.headers = response.headers
        self.content_type = response.headers.get("Content-Type", "application/octet-stream")

    async def chunks(self, limit: int, size: int = 64 * 1024) -> AsyncIterator[bytes]:
        """Read the body in chunks. Raises `PeerMalformed` if it exceeds `limit` bytes."""
        content = self.content(limit)
        while chunk := await content.read(size):
            yield chunk

    def content(self, limit: int) -> aiohttp.StreamReader:
        """The body as a stream reader. Reading raises `PeerMalformed` if it exceeds `limit` bytes."""
        length = self._response.content_length
        if length is not None and length > limit:
            raise _too_large(self._peer, limit)
        return _LimitedReader(self._peer, self._response.content, limit)


class _LimitedReader(aiohttp.StreamReader):
    """Reads from another stream reader up to a limit. Raises `PeerError`."""

    def __init__(self, peer: str, content: aiohttp.StreamReader, limit: int) -> None:
        # The constructor of the base class is not called, since it would create a buffer.
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
    """Sends requests to other servers. `may_contact` tells whether the configuration allows contacting a
    server."""

    def __init__(
        self,
        server_name: str,
        own_keys: Callable[[], LocalKeys],
        resolver: Resolver,
        connections: PeerConnections,
        *,
        may_contact: Callable[[str], bool],
        observer: HomeserverObserver | None = None,
        recorder: RequestRecorder | None = None,
    ) -> None:
        self._server_name = server_name
        self._own_keys = own_keys
        self._resolver = resolver
        self._connections = connections
        self._may_contact = may_contact
        self._observer = observer or HomeserverObserver()
        self._recorder = recorder

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
        """Send a request and return the JSON object of the response.

        Raises `PeerError`; it is a `PeerRefused` if the status is not 2xx. `content` is None exactly for GET:
        the body of a PUT or POST is at least `{}`.
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
    ) -> AsyncIterator[StreamedResponse]:
        """Send a GET request whose response may be large and is not JSON. `idle`: the maximum number of
        seconds without a byte."""
        async with self._exchange("GET", destination, target, None, timeout, signed, idle) as response:
            yield StreamedResponse(destination, response)

    @contextlib.asynccontextmanager
    async def _exchange(
        self,
        method: str,
        destination: str,
        target: RequestTarget,
        content: Content,
        time_limit: float,
        signed: bool,
        idle: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and record it when the response has been read."""
        problem: BaseException | None = None
        try:
            async with self._timed_exchange(method, destination, target, content, time_limit, signed, idle) as response:
                yield response
        except BaseException as error:
            problem = error
            raise
        finally:
            if self._recorder is not None:
                await self._recorder.request_ended(destination, method, target, content, problem)

    @contextlib.asynccontextmanager
    async def _timed_exchange(
        self,
        method: str,
        destination: str,
        target: RequestTarget,
        content: Content,
        time_limit: float,
        signed: bool,
        idle: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request within the time limit, count it in the metrics, and require a 2xx status."""
        assert (content is None) == (method == "GET"), "a PUT or POST has a JSON body, a GET none"
        began = time.monotonic()
        problem: PeerError | None = None
        deadline = asyncio.timeout(time_limit)
        try:
            async with deadline:
                response = await self._send(method, destination, target.uri, encode_body(content), signed, idle)
                async with response:
                    if not 200 <= response.status < 300:
                        raise await _refusal(destination, response)
                    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                        raise PeerMalformed(destination, "answered with a compressed body, which was not requested")
                    yield response
        except PeerError as error:
            problem = error
            raise
        except TimeoutError as error:
            if not deadline.expired():
                raise  # from the code that reads the response
            problem = PeerTimedOut(destination, "took too long to answer")
            raise problem from error
        finally:
            seconds = time.monotonic() - began
            self._observer.request_ended(target.template, method, outcome_of(problem), seconds)

    async def _send(
        self, method: str, destination: str, uri: str, body: bytes | None, signed: bool, idle: float | None
    ) -> aiohttp.ClientResponse:
        if destination == self._server_name or not self._may_contact(destination):
            raise PeerNotAllowed(destination, "is not a server that this server federates with")
        route = await self._resolver.route(destination)
        headers = {}
        if signed:
            key = self._own_keys().current
            headers["Authorization"] = authorization(method, uri, self._server_name, destination, body, key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            return await self._connections.send(destination, route, method, uri, headers=headers, body=body, idle=idle)
        except PeerUnreachable:
            self._resolver.mark_unreachable(destination)
            raise


async def _read_json(peer: str, response: aiohttp.ClientResponse, limit: int) -> Any:
    body = b"".join([chunk async for chunk in StreamedResponse(peer, response).chunks(limit)])
    try:
        return await asyncio.to_thread(decode, body) if len(body) > _MAX_INLINE_DECODE else decode(body)
    except NotJson as error:
        raise PeerMalformed(peer, "answered with something that is not JSON") from error


def _too_large(peer: str, limit: int) -> PeerMalformed:
    return PeerMalformed(peer, f"answered with more than the limit of {limit} bytes")


async def _refusal(peer: str, response: aiohttp.ClientResponse) -> PeerError:
    """The error for a response whose status is not 2xx, with the details of its JSON body if it has one."""
    content = None
    with contextlib.suppress(PeerMalformed, PeerUnreachable):
        content = await _read_json(peer, response, _MAX_ERROR_BYTES)
    return refusal(peer, response.status, content, response.headers)
