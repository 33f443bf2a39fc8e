"""What the endpoints of users, aliases, published rooms and spaces have to be given, and what each of them
begins with."""

from dataclasses import dataclass

from aiohttp import web

from federation.service.directory import Directory
from federation.service.profiles import Profiles
from federation.service.public_rooms import PublicRooms
from federation.service.request_authenticator import AuthenticatedRequest, RequestAuthenticator
from federation.service.space_hierarchy import Spaces


@dataclass(frozen=True, slots=True)
class QueryServices:
    authenticator: RequestAuthenticator
    profiles: Profiles
    directory: Directory
    public_rooms: PublicRooms
    spaces: Spaces


QUERIES = web.AppKey("QUERIES", QueryServices)

V1 = "/_matrix/federation/v1"


async def begin(request: web.Request) -> tuple[QueryServices, AuthenticatedRequest]:
    """Who answers, and who asks."""
    services = request.app[QUERIES]
    return services, await services.authenticator.authenticate(request)
