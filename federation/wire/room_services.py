"""What the endpoints of rooms and transactions have to be given, and what each of them begins with."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from federation.service.inbox import Inbox
from federation.service.request_authenticator import AuthenticatedRequest, RequestAuthenticator
from federation.service.room_requests import RoomRequests


@dataclass(frozen=True, slots=True)
class RoomServices:
    authenticator: RequestAuthenticator
    requests: RoomRequests
    inbox: Inbox
    now_ms: Callable[[], int]


ROOMS = web.AppKey("ROOMS", RoomServices)

IN_ROOM = "{room_id:[^/]+}"
OF_EVENT = "{event_id:[^/]+}"
V1 = "/_matrix/federation/v1"


async def begin(request: web.Request) -> tuple[RoomServices, AuthenticatedRequest]:
    """Who answers, and who asks."""
    services = request.app[ROOMS]
    return services, await services.authenticator.authenticate(request)
