"""Requests authenticated where they arrive: a real server, real keys, a real database."""

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
from federation.peers.gate import PeerGate
from federation.peers.limits import PeerLimits, Rate
from federation.peers.request_authenticator import ASKED, AuthenticatedRequest, RequestAuthenticator
from storage.database import Database
from tests.support.key_server import KeyServer, key_server
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood
from tests.support.server_keys import DAY, NOW, key, key_document, old_key

FIRST, SECOND = key("1"), key("2")


@dataclass
class Gate:
    """Our server, which lets in who can show who he is; `peer` is the one that may ask."""

    url: str
    peer: KeyServer
    now_ms: list[int]
    clock: Any
    limits: PeerGate
    heard: list[str] = field(default_factory=list)
    came: list[AuthenticatedRequest] = field(default_factory=list)

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
async def gate(neighbourhood: Neighbourhood, database: Database) -> AsyncIterator[Gate]:
    peer = await key_server(neighbourhood, "a.test", FIRST)
    reach = neighbourhood.reach()
    now_ms = [NOW]
    ring = KeyRing(
        OWN_NAME,
        lambda: OWN_KEYS,
        reach.client,
        database,
        now_ms=lambda: now_ms[0],
        clock=neighbourhood.clock,
    )
    # No address is exempt here, and a stranger may fail a hundred times.
    limits = PeerLimits(queries=Rate(1, 150), failures=Rate(1, 100), shared_addresses=())
    made = Gate("", peer, now_ms, neighbourhood.clock, PeerGate(limits, clock=neighbourhood.clock))
    authenticator = RequestAuthenticator(
        OWN_NAME, ring, is_allowed=lambda name: name == peer.name, heard=made.heard.append, gate=made.limits
    )

    async def handle(request: web.Request) -> web.Response:
        try:
            made.came.append(await authenticator.authenticate(request))
            assert request[ASKED] is made.came[-1]
        except MatrixError as error:
            return web.json_response(error.body(), status=error.status)
        return web.json_response({})

    server = await neighbourhood.server(handle, "us.test", plain=True)
    made.url = f"http://127.0.0.1:{server.port}"
    yield made
    await ring.close()


async def test_a_signed_request_comes_in(gate: Gate) -> None:
    """With its origin and its parsed content; and its server counts as alive."""
    assert await gate.send(body=encode({"pdus": [1]})) == (200, "")
    assert await gate.send("GET", "/_matrix/federation/v1/event/%24abc?x=%2F+&y", None) == (200, "")
    assert gate.came == [
        AuthenticatedRequest(gate.peer.name, {"pdus": [1]}),
        AuthenticatedRequest(gate.peer.name, None),
    ]
    assert gate.heard == [gate.peer.name] * 2
    assert gate.peer.asked == 1


@pytest.mark.parametrize(
    "uri",
    [
        "/_matrix/federation/v1/state/%21abc%3Aa.test?event_id=%24x%2By",
        "/_matrix/federation/v1/state/!abc:a.test?event_id=$x+y",
        "/_matrix/federation/v1/state/%21abc:a.test/%2e%2e/..%2F?",
        "/_matrix//federation/v1/%7Bx%7D?a=%zz&&b",
    ],
)
async def test_the_target_counts_as_it_came(gate: Gate, uri: str) -> None:
    """matrix-org/matrix-spec-proposals#3253: how a path is escaped is the sender's affair."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gate.url.rpartition(":")[2]))
    header = authorization("GET", uri, gate.peer.name, OWN_NAME, None, FIRST)
    writer.write(f"GET {uri} HTTP/1.1\r\nHost: us\r\nAuthorization: {header}\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()
    await writer.wait_closed()


async def test_what_was_not_signed_does_not_come_in(gate: Gate) -> None:
    """Another path, another key, another server; and nobody counts as alive for it."""
    assert await gate.send(signed_uri="/_matrix/federation/v1/send/2") == (401, "M_UNAUTHORIZED")
    assert await gate.send(signer=key("1", "other")) == (401, "M_UNAUTHORIZED")
    assert await gate.send(origin="b.test") == (403, "M_FORBIDDEN")
    assert gate.came == []
    assert gate.heard == []


async def test_an_old_key_signs_no_requests(gate: Gate) -> None:
    """ "old_verify_keys which are only valid for signing events" """
    gate.peer.answer = key_document(gate.peer.name, SECOND, old=old_key(FIRST, NOW - 1))
    assert await gate.send(signer=FIRST) == (401, "M_UNAUTHORIZED")
    assert await gate.send(signer=SECOND) == (200, "")


async def test_a_key_that_ran_out_is_fetched_again(gate: Gate) -> None:
    """A request is signed with a key of now."""
    assert await gate.send() == (200, "")
    gate.now_ms[0] = NOW + DAY + 1
    assert await gate.send() == (401, "M_UNAUTHORIZED")
    gate.peer.answer = key_document(gate.peer.name, FIRST, until=NOW + 2 * DAY)
    gate.clock.now += 60
    assert await gate.send() == (200, "")


async def test_a_rotation_does_not_interrupt(gate: Gate) -> None:
    """The first request with the new key fetches it."""
    assert await gate.send() == (200, "")
    gate.peer.answer = key_document(gate.peer.name, SECOND, old=old_key(FIRST, NOW))
    assert await gate.send(signer=SECOND) == (200, "")


async def test_a_large_body_is_checked_all_the_same(gate: Gate) -> None:
    """In a thread, so that others go on."""
    body = encode({"pdus": ["x" * 60_000] * 50})
    assert await gate.send(body=body) == (200, "")
    assert gate.came[0].content == json.loads(body)


async def test_a_server_whose_keys_are_not_to_be_had_stays_outside(gate: Gate) -> None:
    """And asks us to ask it not more than once in a while."""
    gate.peer.status = 500
    for _ in range(10):
        assert await gate.send() == (401, "M_UNAUTHORIZED")
    assert gate.peer.asked == 1


async def test_a_stranger_cannot_make_us_check_without_end(gate: Gate) -> None:
    """After so many failures from his address he is not listened to, whoever he says he is; later he is."""
    for _ in range(100):
        assert await gate.send(signer=key("1", "other")) == (401, "M_UNAUTHORIZED")
    assert await gate.send(signer=key("1", "other")) == (429, "M_LIMIT_EXCEEDED")
    assert await gate.send() == (429, "M_LIMIT_EXCEEDED")
    gate.clock.now += 1
    for _ in range(3):
        assert await gate.send() == (200, "")


async def test_a_server_that_asks_too_much_is_told_so(gate: Gate) -> None:
    """Only once it has shown who it is, so that nobody can use up what another may ask; and it is alive."""
    for _ in range(150):
        assert await gate.send() == (200, "")
    assert await gate.send() == (429, "M_LIMIT_EXCEEDED")
    assert await gate.send(signer=key("1", "other")) == (401, "M_UNAUTHORIZED")
    assert len(gate.came) == 150
    assert len(gate.heard) == 151
