"""What the endpoints of devices have to be given, and what each of them begins with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from federation.service.request_authenticator import AuthenticatedRequest, RequestAuthenticator


@dataclass(frozen=True, slots=True)
class DeviceServices:
    """`user_exists` says whether a user id is one of this server's users."""

    server_name: str
    authenticator: RequestAuthenticator
    user_exists: Callable[[str], Awaitable[bool]]


DEVICES = web.AppKey("DEVICES", DeviceServices)

V1 = "/_matrix/federation/v1"


async def begin(request: web.Request) -> tuple[DeviceServices, AuthenticatedRequest]:
    """Who answers, and who asks."""
    services = request.app[DEVICES]
    return services, await services.authenticator.authenticate(request)
