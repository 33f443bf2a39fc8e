"""Socket.IO as offices serve it: the handshake of versions stands in front of it, on polling and WebSocket
alike, and the library does not wait for a client without end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from io import BytesIO
from typing import Any, Final, cast

import engineio  # type: ignore[import-untyped]  # it publishes no types
import socketio
from aiohttp import web
from engineio.async_drivers.aiohttp import WebSocket  # type: ignore[import-untyped]

from bridge.connectors.offices.protocol.versions import PARAMETER, Accepted, Line, Refused, judge

SILENCE: Final = 60.0
"""Seconds after which a WebSocket that says nothing is closed. Its client answers a ping every 25 s."""


class _WebSocket(WebSocket):  # type: ignore[misc]
    async def wait(self) -> Any:
        async with asyncio.timeout(SILENCE):
            return await super().wait()


class _EngineIO(engineio.AsyncServer):  # type: ignore[misc]
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._async: dict[str, Any] = {**self._async, "websocket": _WebSocket}

    async def disconnect(self, sid: str | None = None) -> None:
        """Close a session without waiting until its client has fetched what is queued for it.

        Engine.IO calls this before it answers a POST that it refuses, and a client whose POST is refused may
        never poll again: the answer would never come.
        """
        sessions = tuple(self.sockets) if sid is None else (sid,)
        for session in sessions:
            if (socket := self.sockets.get(session)) is not None:
                await socket.close(wait=False, reason=self.reason.SERVER_DISCONNECT)
                self.sockets.pop(session, None)


class SocketIO(socketio.AsyncServer):  # type: ignore[misc]
    def _engineio_server_class(self) -> Any:
        return _EngineIO


ACCEPTED: Final[web.RequestKey[Accepted]] = web.RequestKey("A2C_VERSION", Accepted)
"""In the request that Socket.IO is given."""
_SESSION: Final = "sid"

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def routes(
    path: str, handle: Handle, lines: Collection[Line], *, accept_unversioned: bool
) -> Iterable[web.RouteDef]:
    """Only what lies at the path itself, with and without a slash."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if _SESSION not in request.query:
            judged = judge(request.query.getall(PARAMETER, []), lines, accept_unversioned=accept_unversioned)
            if isinstance(judged, Refused):
                return web.Response(status=400, body=judged.body, headers=judged.headers)
            request[ACCEPTED] = judged
        if request.method == "POST":
            # What stands in front of us has read the body, and Engine.IO reads it from the request.
            return await handle(cast(web.Request, _Again(request, await request.read())))
        return await handle(request)

    where = path.rstrip("/")
    for method in ("GET", "POST", "OPTIONS"):
        yield web.route(method, where, answer)
        yield web.route(method, f"{where}/", answer)


class _Again:
    """A request with its body once more; all else of it is as it was."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self.content = _Body(body)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


class _Body:
    def __init__(self, body: bytes) -> None:
        self._left = BytesIO(body)

    async def read(self, size: int = -1) -> bytes:
        return self._left.read(size)
