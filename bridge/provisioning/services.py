"""The services of the handlers, and their common error and CORS handling.

CORS headers let a web page use the API. Client-server API, "Web Browser Clients".
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import hdrs, web

from appservice.people.double_puppets import DoublePuppets
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.people.permissions import Level
from bridge.provisioning.authorization import Authentication
from bridge.provisioning.direct_chats import DirectChats
from bridge.provisioning.login_steps import LoginProcesses
from federation.http.responses import error_response, json_response
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError
from storage.connect import ConnectionLost

HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "X-Requested-With, Content-Type, Authorization",
}
"""The API uses nothing that a browser adds by itself, such as cookies, so a foreign page gains no access."""


MAX_BYTES: Final = 64 * 1024
"""Maximum size of a request body. The port allows more, for the homeserver."""

Answer = tuple[Mapping[str, Any], int]
Handler = Callable[[web.Request, "ProvisioningServices"], Awaitable[Answer | Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningServices:
    """`name_of` returns the configured name of an agent of this node; `prefix` is the command prefix."""

    authentication: Authentication
    puppets: DoublePuppets
    chats: DirectChats
    side: MatrixBackend
    routes: RoutingTable
    names: GhostNames
    name_of: Callable[[Agent], str | None]
    prefix: str
    monotonic: Callable[[], float]
    login_processes: LoginProcesses = field(default_factory=LoginProcesses)

    async def person(self, request: web.Request, needed: Level = Level.LOOK) -> str:
        """Return the requesting person. Raises `MatrixError`."""
        return await self.authentication.person(
            request.headers.getall(hdrs.AUTHORIZATION, []), request.query.get("user_id"), request.remote, needed
        )

    async def close(self) -> None:
        await self.authentication.close()
        await self.chats.close()


class ServicesHolder:
    """Holds the services once the node has started: the port opens earlier, and requests get a 503 until
    then."""

    def __init__(self) -> None:
        self._services: ProvisioningServices | None = None

    def set_services(self, services: ProvisioningServices) -> None:
        self._services = services

    @property
    def services(self) -> ProvisioningServices:
        """Raises `MatrixError` before the node has started."""
        if self._services is None:
            raise MatrixError("M_UNKNOWN", "This node is still starting: try again in a moment.", 503)
        return self._services

    async def close(self) -> None:
        if self._services is not None:
            await self._services.close()


SERVICES_HOLDER: Final = web.AppKey("PROVISIONING_DOOR", ServicesHolder)


def with_cors_and_errors(handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Add CORS headers to responses and errors."""

    async def answer(request: web.Request) -> web.Response:
        try:
            given = await handler(request, request.app[SERVICES_HOLDER].services)
        except MatrixError as refused:
            return error_response(refused, HEADERS)
        except ConnectionLost:
            away = MatrixError("M_UNKNOWN", "The database or the homeserver is unavailable: try again later.", 503)
            return error_response(away, HEADERS)
        body, status = given if isinstance(given, tuple) else (given, 200)
        return json_response(body, status, HEADERS)

    return answer


async def preflight(request: web.Request) -> web.Response:
    """Answer a browser's preflight request."""
    return web.Response(status=204, headers=HEADERS)


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object of the request. Raises `MatrixError`."""
    body = await request.read()
    if len(body) > MAX_BYTES:
        raise MatrixError("M_TOO_LARGE", f"A request has at most {MAX_BYTES} bytes.", 413)
    try:
        found = decode(body or b"{}")
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise MatrixError("M_BAD_JSON", "The body is not an object.")
    return found
