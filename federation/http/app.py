"""The aiohttp application of the port: the endpoints, their services and the audit middleware."""

from collections.abc import Iterable
from types import ModuleType
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from federation.homeserver import Homeserver
from federation.http.endpoints import (
    devices,
    events,
    health,
    keys,
    media,
    membership,
    queries,
    server,
    transactions,
    well_known,
)
from federation.http.endpoints.keys import NOTARY
from federation.http.middleware import PeerDisconnected
from federation.http.server.capacity import Limits
from federation.http.services import (
    DEVICES,
    MEDIA,
    MEMBERSHIP,
    NODE,
    QUERIES,
    ROOMS,
    DeviceServices,
    MediaServices,
    MembershipServices,
    Node,
    QueryServices,
    RoomServices,
)
from federation.matrix.errors import MatrixError, PeerError
from federation.peers import audit
from federation.peers.actions import Action, AuditTiming, RequestKind, action_of
from federation.peers.audit import AuditOutcome, Identifiers
from federation.peers.audit_trail import AuditTrail
from federation.peers.request_authenticator import AUTHENTICATED
from federation.peers.request_limiter import RequestLimiter

COMMON_ENDPOINTS: Final[tuple[ModuleType, ...]] = (keys, server, health)
"""Served by each node with a port, also while it starts."""


def make_app(
    node: Node,
    limits: Limits,
    more_routes: Iterable[web.AbstractRouteDef] = (),
    endpoints: Iterable[ModuleType] = COMMON_ENDPOINTS,
) -> web.Application:
    """Make the application. Each endpoint module has `ROUTES`; the middleware responds to unmatched
    requests.

    Write a path parameter as `{name:[^/]+}`: aiohttp's plain `{name}` matches no segment with a brace.
    """
    app = web.Application(client_max_size=limits.max_body)
    app[NODE] = node
    for module in endpoints:
        app.add_routes(module.ROUTES)
    app.add_routes(more_routes)
    return app


ENDPOINTS: Final[tuple[ModuleType, ...]] = (devices, events, media, membership, queries, transactions, well_known)


def serve(app: web.Application, homeserver: Homeserver) -> None:
    """Add the endpoints and services of a homeserver to the application."""
    authenticator = homeserver.authenticator
    app[ROOMS] = RoomServices(authenticator, homeserver.room_requests, homeserver.inbox, homeserver.now_ms)
    app[MEMBERSHIP] = MembershipServices(authenticator, homeserver.membership_requests)
    app[MEDIA] = MediaServices(homeserver.media, authenticator)
    app[QUERIES] = QueryServices(
        authenticator, homeserver.profiles, homeserver.directory, homeserver.public_rooms, homeserver.spaces
    )
    app[DEVICES] = DeviceServices(homeserver.server_name, authenticator, homeserver.profiles.exists)
    app[NOTARY] = homeserver.notary
    app.middlewares.append(audit_middleware(homeserver.audit, homeserver.limiter))
    for module in ENDPOINTS:
        app.add_routes(module.ROUTES)


_RECORDED_ELSEWHERE: Final = frozenset({AuditTiming.NEVER, AuditTiming.WITH_COMMIT})
"""Requests of these kinds are not recorded by the middleware when they succeed."""


def audit_middleware(trail: AuditTrail, limiter: RequestLimiter) -> Middleware:
    """Limit unsigned requests of other servers, and record requests of other servers in the audit trail.
    Other requests are passed to their handler."""

    @web.middleware
    async def audited(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        act = None if resource is None else action_of(request.method, resource.canonical)
        if act is None:
            return await handler(request)
        try:
            if act.kind is RequestKind.OPEN:
                limiter.check_unsigned(request.remote)
            response = await handler(request)
        except Exception as error:
            trail.record_refusal(_peer(request), act, _named(request, act), *_refusal(request, act, error))
            raise
        if act.recorded not in _RECORDED_ELSEWHERE:
            await trail.record_success(_peer(request), act, _named(request, act))
        return response

    return audited


def _refusal(request: web.Request, act: Action, error: Exception) -> tuple[AuditOutcome, str]:
    authenticated = act.kind is RequestKind.OPEN or AUTHENTICATED in request
    if isinstance(error, MatrixError):
        ending, detail = audit.outcome_of_refusal(error, authenticated=authenticated)
    elif isinstance(error, PeerError):
        ending, detail = AuditOutcome.FAILED, str(error)
    elif isinstance(error, PeerDisconnected):
        ending, detail = AuditOutcome.ABANDONED, "it disconnected during the response"
    else:
        # Details are in the log.
        ending, detail = AuditOutcome.FAILED, "internal error of this server"
    return ending, detail if AUTHENTICATED in request else f"{_unauthenticated_peer(request)}: {detail}"


def _peer(request: web.Request) -> str | None:
    return request[AUTHENTICATED].origin if AUTHENTICATED in request else None


def _unauthenticated_peer(request: web.Request) -> str:
    """Describe an unauthenticated peer."""
    return request.remote or "an unknown address"


def _named(request: web.Request, act: Action) -> Identifiers:
    content = request[AUTHENTICATED].content if AUTHENTICATED in request else None
    return audit.identifiers_of(act, request.match_info, request.query, content)
