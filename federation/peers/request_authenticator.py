"""Authenticates the requests of other servers: parse, fetch the keys, verify."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import hdrs, web

from federation.keys.key_ring import KeyRing
from federation.keys.request_verification import parse_claim, parse_request, verify_request
from federation.peers.acts import OTHER, Kind, act_of
from federation.peers.gate import PeerGate

# Reading and checking more than this at once would keep everything else waiting; a thread does it.
_MAX_INLINE_DECODE: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class AuthenticatedRequest:
    """`origin` has signed `content`, which is the body of a PUT or POST, parsed, and None for a GET."""

    origin: str
    content: dict[str, Any] | None


ASKED: Final = web.RequestKey("ASKED", AuthenticatedRequest)
"""Where it stands in a request once it is known who asks, for those who look at the request later."""


class RequestAuthenticator:
    """`is_allowed` is the configuration's word on who may federate; `heard` is told of every server that
    proved to be alive, so that what waits for it is sent. `gate` holds servers to their limits."""

    def __init__(
        self,
        server_name: str,
        key_ring: KeyRing,
        *,
        is_allowed: Callable[[str], bool],
        heard: Callable[[str], None] = lambda _: None,
        gate: PeerGate | None = None,
    ) -> None:
        self._server_name = server_name
        self._key_ring = key_ring
        self._is_allowed = is_allowed
        self._heard = heard
        self._gate = PeerGate() if gate is None else gate

    async def authenticate(self, request: web.BaseRequest) -> AuthenticatedRequest:
        """Raises `MatrixError`: 401 for who cannot show who he is, 403 for who may not ask, 429 for who asks
        too much."""
        with self._gate.trial(request.remote):
            asked = await self._verified(request)
        request[ASKED] = asked
        # As soon as this request waits for something itself.
        asyncio.get_running_loop().call_soon(self._heard, asked.origin)
        self._gate.admit(asked.origin, _kind(request))
        return asked

    async def _verified(self, request: web.BaseRequest) -> AuthenticatedRequest:
        claim = parse_claim(
            request.headers.getall(hdrs.AUTHORIZATION, []), self._server_name, self._is_allowed
        )
        body = await request.read()
        # The target verbatim; aiohttp's other forms of it have been decoded.
        what = claim, request.method, request.raw_path, body, self._server_name
        large = len(body) > _MAX_INLINE_DECODE
        received = await asyncio.to_thread(parse_request, *what) if large else parse_request(*what)
        verify_request(received, await self._key_ring.request_keys(claim.origin, claim.key_ids))
        return AuthenticatedRequest(claim.origin, received.content)


def _kind(request: web.BaseRequest) -> Kind:
    """Which limit it falls under."""
    resource = request.match_info.route.resource if isinstance(request, web.Request) else None
    act = None if resource is None else act_of(request.method, resource.canonical)
    return (act or OTHER).kind
