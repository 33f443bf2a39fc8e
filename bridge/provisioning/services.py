"""What the handlers work with, and what each of them begins and ends with.

What lets a page in a browser ask. Client-server API, "Web Browser Clients".
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import hdrs, web

from appservice.people.double_puppets import Puppets
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.people.permissions import Level
from bridge.provisioning.authorization import Authentication
from bridge.provisioning.direct_chats import DirectChats
from bridge.provisioning.login_steps import Begun
from federation.http.responses import error_response, json_response
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError
from storage.connect import ConnectionLost

HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "X-Requested-With, Content-Type, Authorization",
}
"""Nothing that a browser would add by itself is looked at, so that a foreign page can do nothing with it."""


MOST_BYTES: Final = 64 * 1024
"""Of what is asked. The port lets more pass, for the homeserver."""

Answer = tuple[Mapping[str, Any], int]
Handler = Callable[[web.Request, "ProvisioningServices"], Awaitable[Answer | Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningServices:
    """`name_of` is how the configuration calls an agent of this node; `prefix` is that of commands."""

    authentication: Authentication
    puppets: Puppets
    chats: DirectChats
    side: MatrixBackend
    routes: RoutingTable
    names: GhostNames
    name_of: Callable[[Agent], str | None]
    prefix: str
    monotonic: Callable[[], float]
    begun: Begun = field(default_factory=Begun)

    async def person(self, request: web.Request, needed: Level = Level.LOOK) -> str:
        """Who asks. Raises `MatrixError`."""
        return await self.authentication.person(
            request.headers.getall(hdrs.AUTHORIZATION, []),
            request.query.get("user_id"),
            request.remote,
            needed,
        )

    async def close(self) -> None:
        await self.authentication.close()
        await self.chats.close()


class Door:
    """The port is open before the node works: until then whoever comes is asked to come again."""

    def __init__(self) -> None:
        self._services: ProvisioningServices | None = None

    def move_in(self, services: ProvisioningServices) -> None:
        self._services = services

    @property
    def services(self) -> ProvisioningServices:
        """Raises `MatrixError` as long as nobody is in."""
        if self._services is None:
            raise MatrixError("M_UNKNOWN", "This node is still starting: ask again in a moment.", 503)
        return self._services

    async def close(self) -> None:
        if self._services is not None:
            await self._services.close()


DOOR: Final = web.AppKey("PROVISIONING_DOOR", Door)


def answering(handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    """With what a browser needs, also where it is refused."""

    async def answer(request: web.Request) -> web.Response:
        try:
            given = await handler(request, request.app[DOOR].services)
        except MatrixError as refused:
            return error_response(refused, HEADERS)
        except ConnectionLost:
            away = MatrixError("M_UNKNOWN", "What this takes is away for the moment: ask again later.", 503)
            return error_response(away, HEADERS)
        body, status = given if isinstance(given, tuple) else (given, 200)
        return json_response(body, status, HEADERS)

    return answer


async def preflight(request: web.Request) -> web.Response:
    """A browser asks whether it may ask."""
    return web.Response(status=204, headers=HEADERS)


async def read_object(request: web.Request) -> dict[str, Any]:
    """What was sent with it. Raises `MatrixError`."""
    body = await request.read()
    if len(body) > MOST_BYTES:
        raise MatrixError("M_TOO_LARGE", f"A request has at most {MOST_BYTES} bytes.", 413)
    try:
        found = decode(body or b"{}")
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise MatrixError("M_BAD_JSON", "The body is not an object.")
    return found
