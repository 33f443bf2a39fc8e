"""Authenticates requests of other servers: parses the Authorization header, fetches keys, verifies the
signature."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import hdrs, web

from federation.keys.key_ring import KeyRing
from federation.keys.request_verification import parse_claim, parse_request, verify_request
from federation.peers.actions import OTHER, RequestKind, action_of
from federation.peers.request_limiter import RequestLimiter

# A larger body is parsed in a thread, so that it does not block the event loop.
_MAX_INLINE_DECODE: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class AuthenticatedRequest:
    """A request whose signature by `origin` is valid. `content` is the parsed body of a PUT or POST, None for
    a GET."""

    origin: str
    content: dict[str, Any] | None


AUTHENTICATED: Final = web.RequestKey("AUTHENTICATED", AuthenticatedRequest)
"""The request key under which the authenticated request is stored, for the audit middleware."""


class RequestAuthenticator:
    """Authenticates requests of other servers.

    `is_allowed` tells whether the configuration allows federating with a server. `on_authenticated` is called
    with the server of each authenticated request: it is online, so queued transactions can be sent to it.
    `limiter` enforces the rate limits.
    """

    def __init__(
        self,
        server_name: str,
        key_ring: KeyRing,
        *,
        is_allowed: Callable[[str], bool],
        on_authenticated: Callable[[str], None] = lambda _: None,
        limiter: RequestLimiter | None = None,
    ) -> None:
        self._server_name = server_name
        self._key_ring = key_ring
        self._is_allowed = is_allowed
        self._on_authenticated = on_authenticated
        self._limiter = RequestLimiter() if limiter is None else limiter

    async def authenticate(self, request: web.BaseRequest) -> AuthenticatedRequest:
        """Return the authenticated request. Raises `MatrixError`: 401 if the signature is missing or invalid,
        403 if this server does not federate with the origin, 429 if a rate limit is exceeded."""
        with self._limiter.authenticating(request.remote):
            authenticated = await self._verified(request)
        request[AUTHENTICATED] = authenticated
        # Called later, so that this request is not delayed.
        asyncio.get_running_loop().call_soon(self._on_authenticated, authenticated.origin)
        self._limiter.check(authenticated.origin, _kind(request))
        return authenticated

    async def _verified(self, request: web.BaseRequest) -> AuthenticatedRequest:
        claim = parse_claim(request.headers.getall(hdrs.AUTHORIZATION, []), self._server_name, self._is_allowed)
        body = await request.read()
        # The signature covers the target verbatim. The other forms that aiohttp offers are decoded.
        parts = claim, request.method, request.raw_path, body, self._server_name
        large = len(body) > _MAX_INLINE_DECODE
        received = await asyncio.to_thread(parse_request, *parts) if large else parse_request(*parts)
        verify_request(received, await self._key_ring.request_keys(claim.origin, claim.key_ids))
        return AuthenticatedRequest(claim.origin, received.content)


def _kind(request: web.BaseRequest) -> RequestKind:
    """The kind of the request, which determines its rate limit."""
    resource = request.match_info.route.resource if isinstance(request, web.Request) else None
    action = None if resource is None else action_of(request.method, resource.canonical)
    return (action or OTHER).kind
