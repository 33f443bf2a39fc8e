"""Socket.IO with the version handshake in front of it, on polling and WebSocket alike, and with bounded waits
for clients that no longer read.
"""

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable
from io import BytesIO
from typing import Any, Final, cast

import engineio  # type: ignore[import-untyped]  # it publishes no types
import socketio
from aiohttp import web
from engineio.async_drivers.aiohttp import WebSocket  # type: ignore[import-untyped]

from bridge.connectors.offices.protocol.versions import (
    PARAMETER,
    AcceptedVersion,
    ProtocolLine,
    VersionRefusal,
    check_version,
)

MAX_FIRST_ID: Final = 2**48
"""Below the largest integer of JavaScript."""
WEBSOCKET_TIMEOUT: Final = 60.0
"""Seconds after which a silent WebSocket is closed. A client answers a ping every 25 s."""


class _WebSocket(WebSocket):  # type: ignore[misc]
    async def wait(self) -> Any:
        async with asyncio.timeout(WEBSOCKET_TIMEOUT):
            return await super().wait()


class _EngineIO(engineio.AsyncServer):  # type: ignore[misc]
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._async: dict[str, Any] = {**self._async, "websocket": _WebSocket}

    async def disconnect(self, sid: str | None = None) -> None:
        """Close a session without waiting for its client to fetch what is queued for it.

        Engine.IO calls this before it answers a POST that it refuses. A client whose POST is refused may
        never poll again, and then the answer would never be sent.
        """
        sessions = tuple(self.sockets) if sid is None else (sid,)
        for session in sessions:
            if (socket := self.sockets.get(session)) is not None:
                await socket.close(wait=False, reason=self.reason.SERVER_DISCONNECT)
                self.sockets.pop(session, None)


class SocketIO(socketio.AsyncServer):  # type: ignore[misc]
    def _engineio_server_class(self) -> Any:
        return _EngineIO

    def number_requests(self, sid: str) -> None:
        """Number the requests to a connection from a random id on. A client that has reconnected may still
        answer a request of its old connection, under the id that this had there."""
        self.manager.callbacks[sid] = {0: itertools.count(1 + secrets.randbelow(MAX_FIRST_ID))}


ACCEPTED: Final[web.RequestKey[AcceptedVersion]] = web.RequestKey("A2C_VERSION", AcceptedVersion)
"""Request key under which Socket.IO's handlers find the protocol version."""
_SESSION_PARAMETER: Final = "sid"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def routes(
    path: str, handler: Handler, lines: Collection[ProtocolLine], *, accept_unversioned: bool
) -> Iterable[web.RouteDef]:
    """Routes for exactly this path, with and without a trailing slash."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if _SESSION_PARAMETER not in request.query:
            values = request.query.getall(PARAMETER, [])
            checked = check_version(values, lines, accept_unversioned=accept_unversioned)
            if isinstance(checked, VersionRefusal):
                return web.Response(status=400, body=checked.body, headers=checked.headers)
            request[ACCEPTED] = checked
        if request.method == "POST":
            # The node's middleware has already read the body, but Engine.IO reads it from the request.
            return await handler(cast(web.Request, _RequestWithBody(request, await request.read())))
        return await handler(request)

    base = path.rstrip("/")
    for method in ("GET", "POST", "OPTIONS"):
        yield web.route(method, base, handle)
        yield web.route(method, f"{base}/", handle)


class _RequestWithBody:
    """A request whose body can be read again. Everything else is passed through to the original request."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self.content = _Body(body)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


class _Body:
    def __init__(self, body: bytes) -> None:
        self._remaining = BytesIO(body)

    async def read(self, size: int = -1) -> bytes:
        return self._remaining.read(size)
