"""Authentication of requests: a real server, real keys, a real database."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from federation.client.requests import authorization
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import LocalKey
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError
from federation.peers.limits import PeerLimits, Rate
from federation.peers.request_authenticator import AUTHENTICATED, AuthenticatedRequest, RequestAuthenticator
from federation.peers.request_limiter import RequestLimiter
from storage.database import Database
from tests.support.key_server import KeyServer, key_server
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood
from tests.support.server_keys import DAY, NOW, key, key_document, old_key

FIRST, SECOND = key("1"), key("2")


@dataclass
class AuthenticatingServer:
    """A server that authenticates requests; only `peer` may send any."""

    url: str
    peer: KeyServer
    now_ms: list[int]
    clock: Any
    limits: RequestLimiter
    on_authenticated: list[str] = field(default_factory=list)
    received: list[AuthenticatedRequest] = field(default_factory=list)

    async def send(
        self,
        method: str = "PUT",
        uri: str = "/_matrix/federation/v1/send/1",
        body: bytes | None = b"{}",
        *,
        signer: LocalKey = FIRST,
        signed_uri: str | None = None,
        origin: str | None = None,
    ) -> tuple[int, str]:
        """The answer's status and errcode."""
        signature = authorization(method, signed_uri or uri, origin or self.peer.name, OWN_NAME, body, signer)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method,
                URL(self.url + uri, encoded=True),
                data=None if body is None else io.BytesIO(body),
                headers={"Authorization": signature},
            ) as response,
        ):
            return response.status, (await response.json()).get("errcode", "")


@pytest.fixture
async def node(neighbourhood: Neighbourhood, database: Database) -> AsyncIterator[AuthenticatingServer]:
    peer = await key_server(neighbourhood, "a.test", FIRST)
    reach = neighbourhood.reach()
    now_ms = [NOW]
    ring = KeyRing(
        OWN_NAME, lambda: OWN_KEYS, reach.client, database, now_ms=lambda: now_ms[0], clock=neighbourhood.clock
    )
    # No address is exempt, and an address may fail a hundred times.
    limits = PeerLimits(queries=Rate(1, 150), failures=Rate(1, 100), shared_addresses=())
    made = AuthenticatingServer(
        "", peer, now_ms, neighbourhood.clock, RequestLimiter(limits, clock=neighbourhood.clock)
    )
    authenticator = RequestAuthenticator(
        OWN_NAME,
        ring,
        is_allowed=lambda name: name == peer.name,
        on_authenticated=made.on_authenticated.append,
        limiter=made.limits,
    )

    async def handle(request: web.Request) -> web.Response:
        try:
            made.received.append(await authenticator.authenticate(request))
            assert request[AUTHENTICATED] is made.received[-1]
        except MatrixError as error:
            return web.json_response(error.body(), status=error.status)
        return web.json_response({})

    server = await neighbourhood.server(handle, "us.test", plain=True)
    made.url = f"http://127.0.0.1:{server.port}"
    yield made
    await ring.close()


async def test_a_signed_request_is_authenticated(node: AuthenticatingServer) -> None:
    """With its origin and its parsed content; its server counts as online."""
    assert await node.send(body=encode({"pdus": [1]})) == (200, "")
    assert await node.send("GET", "/_matrix/federation/v1/event/%24abc?x=%2F+&y", None) == (200, "")
    assert node.received == [
        AuthenticatedRequest(node.peer.name, {"pdus": [1]}),
        AuthenticatedRequest(node.peer.name, None),
    ]
    assert node.on_authenticated == [node.peer.name] * 2
    assert node.peer.asked == 1


@pytest.mark.parametrize(
    "uri",
    [
        "/_matrix/federation/v1/state/%21abc%3Aa.test?event_id=%24x%2By",
        "/_matrix/federation/v1/state/!abc:a.test?event_id=$x+y",
        "/_matrix/federation/v1/state/%21abc:a.test/%2e%2e/..%2F?",
        "/_matrix//federation/v1/%7Bx%7D?a=%zz&&b",
    ],
)
async def test_the_signature_covers_the_target_verbatim(node: AuthenticatingServer, uri: str) -> None:
    """matrix-org/matrix-spec-proposals#3253: how a path is escaped is up to the sender."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))
    header = authorization("GET", uri, node.peer.name, OWN_NAME, None, FIRST)
    writer.write(f"GET {uri} HTTP/1.1\r\nHost: us\r\nAuthorization: {header}\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()
    await writer.wait_closed()


async def test_a_request_with_an_invalid_signature_is_refused(node: AuthenticatingServer) -> None:
    """Another path, another key, another server; none of them counts as online."""
    assert await node.send(signed_uri="/_matrix/federation/v1/send/2") == (401, "M_UNAUTHORIZED")
    assert await node.send(signer=key("1", "other")) == (401, "M_UNAUTHORIZED")
    assert await node.send(origin="b.test") == (403, "M_FORBIDDEN")
    assert node.received == []
    assert node.on_authenticated == []


async def test_an_old_key_signs_no_requests(node: AuthenticatingServer) -> None:
    """ "old_verify_keys which are only valid for signing events" """
    node.peer.answer = key_document(node.peer.name, SECOND, old=old_key(FIRST, NOW - 1))
    assert await node.send(signer=FIRST) == (401, "M_UNAUTHORIZED")
    assert await node.send(signer=SECOND) == (200, "")


async def test_an_expired_key_is_fetched_again(node: AuthenticatingServer) -> None:
    """A request must be signed with a currently valid key."""
    assert await node.send() == (200, "")
    node.now_ms[0] = NOW + DAY + 1
    assert await node.send() == (401, "M_UNAUTHORIZED")
    node.peer.answer = key_document(node.peer.name, FIRST, until=NOW + 2 * DAY)
    node.clock.now += 60
    assert await node.send() == (200, "")


async def test_a_key_rotation_causes_no_failure(node: AuthenticatingServer) -> None:
    """The first request with the new key fetches it."""
    assert await node.send() == (200, "")
    node.peer.answer = key_document(node.peer.name, SECOND, old=old_key(FIRST, NOW))
    assert await node.send(signer=SECOND) == (200, "")


async def test_a_large_body_is_authenticated(node: AuthenticatingServer) -> None:
    """In a thread, so that the event loop is not blocked."""
    body = encode({"pdus": ["x" * 60_000] * 50})
    assert await node.send(body=body) == (200, "")
    assert node.received[0].content == json.loads(body)


async def test_a_server_whose_keys_are_unavailable_is_refused(node: AuthenticatingServer) -> None:
    """Its keys are not fetched again for each request."""
    node.peer.status = 500
    for _ in range(10):
        assert await node.send() == (401, "M_UNAUTHORIZED")
    assert node.peer.asked == 1


async def test_failed_authentication_is_limited_by_address(node: AuthenticatingServer) -> None:
    """After so many failures all requests from the address are refused for a while, whatever their origin."""
    for _ in range(100):
        assert await node.send(signer=key("1", "other")) == (401, "M_UNAUTHORIZED")
    assert await node.send(signer=key("1", "other")) == (429, "M_LIMIT_EXCEEDED")
    assert await node.send() == (429, "M_LIMIT_EXCEEDED")
    node.clock.now += 1
    for _ in range(3):
        assert await node.send() == (200, "")


async def test_an_authenticated_server_is_rate_limited(node: AuthenticatingServer) -> None:
    """Only after authentication, so that no server can use up the limit of another; it counts as online."""
    for _ in range(150):
        assert await node.send() == (200, "")
    assert await node.send() == (429, "M_LIMIT_EXCEEDED")
    assert await node.send(signer=key("1", "other")) == (401, "M_UNAUTHORIZED")
    assert len(node.received) == 150
    assert len(node.on_authenticated) == 151
