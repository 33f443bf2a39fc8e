"""What the endpoints of memberships have to be given, and what each of them begins with."""

from dataclasses import dataclass

from aiohttp import web

from federation.service.membership_requests import MembershipRequests
from federation.service.request_authenticator import AuthenticatedRequest, RequestAuthenticator


@dataclass(frozen=True, slots=True)
class MembershipServices:
    authenticator: RequestAuthenticator
    requests: MembershipRequests


MEMBERSHIP = web.AppKey("MEMBERSHIP", MembershipServices)

IN_ROOM = "{room_id:[^/]+}"
OF_USER = "{user_id:[^/]+}"
OF_EVENT = "{event_id:[^/]+}"
V1 = "/_matrix/federation/v1"
V2 = "/_matrix/federation/v2"


async def begin(request: web.Request) -> tuple[MembershipRequests, AuthenticatedRequest]:
    """Who asks, and who answers."""
    services = request.app[MEMBERSHIP]
    return services.requests, await services.authenticator.authenticate(request)
