"""The way to Socket.IO: the handshake of versions stands in front of it, on polling and WebSocket alike."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from io import BytesIO
from typing import Any, Final, cast

from aiohttp import web

from bridge.connectors.offices.handshake import PARAMETER, Accepted, Refused, judge
from bridge.connectors.offices.protocol_version import Line

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
