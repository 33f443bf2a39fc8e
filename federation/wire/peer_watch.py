"""Stands round the endpoints for other servers: limits what needs no signature, and records what is asked."""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from federation import audit
from federation.acts import Act, Kind, Recorded, act_of
from federation.audit import Ending, Named
from federation.errors import MatrixError, PeerError
from federation.service.audit import AuditTrail
from federation.service.peer_gate import PeerGate
from federation.service.request_authenticator import ASKED
from federation.wire.middleware import PeerLeft

_OTHERWISE: Final = frozenset({Recorded.NOT, Recorded.BY_ITSELF})
"""What is obeyed of these is not for us to write."""


def peer_watch(trail: AuditTrail, gate: PeerGate) -> Middleware:
    """For `application.middlewares`. What is no request of a server goes through untouched."""

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        act = None if resource is None else act_of(request.method, resource.canonical)
        if act is None:
            return await handler(request)
        try:
            if act.kind is Kind.OPEN:
                gate.admit_unsigned(request.remote)
            response = await handler(request)
        except Exception as error:
            trail.refused(_peer(request), act, _named(request, act), *_refusal(request, act, error))
            raise
        if act.recorded not in _OTHERWISE:
            await trail.obeyed(_peer(request), act, _named(request, act))
        return response

    return watch


def _refusal(request: web.Request, act: Act, error: Exception) -> tuple[Ending, str]:
    authenticated = act.kind is Kind.OPEN or ASKED in request
    if isinstance(error, MatrixError):
        ending, detail = audit.ending_of_refusal(error, authenticated=authenticated)
    elif isinstance(error, PeerError):
        ending, detail = Ending.FAILED, str(error)
    elif isinstance(error, PeerLeft):
        ending, detail = Ending.ABANDONED, "it left in the middle of the answer"
    else:
        # Which one is for the log.
        ending, detail = Ending.FAILED, "an error of this server"
    return ending, detail if ASKED in request else f"{_stranger(request)}: {detail}"


def _peer(request: web.Request) -> str | None:
    return request[ASKED].origin if ASKED in request else None


def _stranger(request: web.Request) -> str:
    """All that is known of whoever has not shown who he is."""
    return request.remote or "an unknown address"


def _named(request: web.Request, act: Act) -> Named:
    content = request[ASKED].content if ASKED in request else None
    return audit.named(act, request.match_info, request.query, content)
