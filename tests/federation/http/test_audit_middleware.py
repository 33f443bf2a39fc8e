"""The middleware for requests of other servers: limits and audit."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from federation.client.requests import authorization
from federation.http.app import audit_middleware, make_app
from federation.http.middleware import PeerDisconnected
from federation.http.responses import json_response
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.services import Node, Readiness
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import LocalKey
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.networks import LOOPBACK, AdmissionRules
from federation.peers.audit_trail import AuditTrail
from federation.peers.limits import PeerLimits, Rate
from federation.peers.request_authenticator import RequestAuthenticator
from federation.peers.request_limiter import RequestLimiter
from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch
from tests.federation.http.running import KEYS, PATIENT, Answer, Recorder, Running
from tests.support.key_server import key_server
from tests.support.loopback_server import Certificates
from tests.support.name_server import NameServer
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Clock, Neighbourhood
from tests.support.server_keys import NOW, key

V1, V2 = "/_matrix/federation/v1", "/_matrix/federation/v2"
PEER_KEY = key("1")


@dataclass
class Watched:
    """A listener with a few endpoints that act by their path; the key of the server `peer` is known."""

    running: Running
    trail: AuditTrail
    peer: str
    clock: Clock

    async def ask(self, method: str, path: str, body: Any = None, *, signer: LocalKey | None = PEER_KEY) -> Answer:
        raw = b"" if body is None else encode(body)
        headers: Mapping[str, str] = {}
        if signer is not None:
            signed = authorization(method, path, self.peer, OWN_NAME, None if body is None else raw, signer)
            headers = {"Authorization": signed}
        async with await self.running.connect() as client:
            return await client.ask(path, method=method, body=raw, headers=headers)

    async def rows(self) -> list[AuditRow]:
        """Return the written entries, oldest first."""
        return (await self.trail.search(AuditSearch(), 100))[::-1]

    async def all_rows(self) -> list[AuditRow]:
        """Return all entries, including those not yet written."""
        await self.trail._flush()
        return await self.rows()


@asynccontextmanager
async def watched(database: Database, directory: Path, limits: PeerLimits | None = None) -> AsyncIterator[Watched]:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer().running())
        neighbourhood = Neighbourhood(names, Certificates(directory), stack)
        peer = await key_server(neighbourhood, "a.test", PEER_KEY)
        ring = KeyRing(OWN_NAME, lambda: OWN_KEYS, neighbourhood.reach().client, database, now_ms=lambda: NOW)
        stack.push_async_callback(ring.close)
        clock = Clock()
        limiter = RequestLimiter(limits, clock=clock)
        authenticator = RequestAuthenticator(OWN_NAME, ring, is_allowed=lambda _: True, limiter=limiter)
        trail = AuditTrail(database, now_ms=lambda: NOW, flush_interval=3600)
        stack.push_async_callback(trail.close)

        async def handle(request: web.Request) -> web.Response:
            await authenticator.authenticate(request)
            match request.match_info.get("room_id"):
                case "!forbidden":
                    raise MatrixError("M_FORBIDDEN", "Not in that room.", 403)
                case "!needs-others":
                    raise PeerError("c.example", "is away")
                case "!broken":
                    raise ZeroDivisionError
            return json_response({"written": len(await trail.search(AuditSearch(), 100))})

        async def leave(request: web.Request) -> web.Response:
            await authenticator.authenticate(request)
            raise PeerDisconnected

        async def for_clients(request: web.Request) -> web.Response:
            return json_response({})

        routes = [
            web.put(f"{V1}/send/{{txn_id:[^/]+}}", handle),
            web.get(f"{V1}/state/{{room_id:[^/]+}}", handle),
            web.put(f"{V2}/send_leave/{{room_id:[^/]+}}/{{event_id:[^/]+}}", handle),
            web.get(f"{V1}/media/download/{{media_id:[^/]+}}", leave),
            web.get("/_matrix/client/versions", for_clients),
        ]
        app = make_app(Node(lambda: KEYS, Readiness, "1", AdmissionRules(LOOPBACK)), PATIENT, routes)
        app.middlewares.append(audit_middleware(trail, limiter))
        seen = Recorder()
        listener = Listener(app, ListenerSettings((Bind("127.0.0.1"),), 0, LOOPBACK, PATIENT), None, seen)
        [address] = await listener.start()
        stack.push_async_callback(listener.close, 1.0)
        trail.start()
        yield Watched(Running(listener, address.port, seen, None), trail, peer.name, clock)


async def test_successful_requests_are_recorded_with_their_origin(database: Database, tmp_path: Path) -> None:
    """A change before its response; a read later; a transaction by its own commit."""
    async with watched(database, tmp_path) as node:
        leave = await node.ask("PUT", f"{V2}/send_leave/!r:a.test/$e", {"sender": "@b:a.test"})
        assert leave.status == 200
        [row] = await node.rows()
        assert row[1:] == (node.peer, "in", "send_leave", "@b:a.test", "!r:a.test", "$e", "done", None)
        read = await node.ask("GET", f"{V1}/state/%21r%3Aa.test?event_id=%24e")
        sent = await node.ask("PUT", f"{V1}/send/1", {"pdus": []})
        assert (read.json, sent.json) == ({"written": 1}, {"written": 1})
        _, row = await node.all_rows()
        assert row[1:] == (node.peer, "in", "state", None, "!r:a.test", "$e", "done", None)


async def test_refused_requests_are_recorded(database: Database, tmp_path: Path) -> None:
    """With the text of the refusal. Internal errors have no details."""
    async with watched(database, tmp_path) as node:
        for room, status in (("!forbidden", 403), ("!needs-others", 502), ("!broken", 500)):
            assert (await node.ask("GET", f"{V1}/state/{room}")).status == status
        leave = await node.ask("PUT", f"{V2}/send_leave/!forbidden/$e", {})
        assert leave.status == 403
        assert [(row.peer, row.act, row.room_id, row.outcome, row.detail) for row in await node.all_rows()] == [
            (node.peer, "state", "!forbidden", "refused", "403 M_FORBIDDEN: Not in that room."),
            (node.peer, "state", "!needs-others", "failed", "c.example: is away"),
            (node.peer, "state", "!broken", "failed", "internal error of this server"),
            (node.peer, "send_leave", "!forbidden", "refused", "403 M_FORBIDDEN: Not in that room."),
        ]
        assert [error.__class__ for _, error in node.running.seen.problems] == [PeerError, ZeroDivisionError]
        node.running.seen.problems.clear()


async def test_unauthenticated_requests_have_no_origin(database: Database, tmp_path: Path) -> None:
    """A claimed name is not recorded as the origin, but the address and the claim are."""
    async with watched(database, tmp_path) as node:
        for signer in (key("1", "other"), None):
            for _ in range(2):
                assert (await node.ask("GET", f"{V1}/state/!r:a.test", signer=signer)).status == 401
        rows = await node.all_rows()
        assert {(row.peer, row.act, row.outcome) for row in rows} == {(None, "state", "unauthenticated")}
        said = "127.0.0.1: 401 M_UNAUTHORIZED:"
        assert [row.detail for row in rows] == [
            f"{said} The signature with the key ed25519:1 of {node.peer} is wrong. (2 times)",
            f"{said} The request has no X-Matrix authorization. (2 times)",
        ]


async def test_the_rate_limit_of_a_server(database: Database, tmp_path: Path) -> None:
    """429 with Retry-After in both forms, and a recorded entry."""
    async with watched(database, tmp_path, PeerLimits(reads=Rate(0.5, 1))) as node:
        assert (await node.ask("GET", f"{V1}/state/!r:a.test")).status == 200
        for _ in range(3):
            answer = await node.ask("GET", f"{V1}/state/!r:a.test")
            assert (answer.status, answer.json["errcode"]) == (429, "M_LIMIT_EXCEEDED")
            assert answer.json["retry_after_ms"] == 2000
            assert answer.headers["retry-after"] == "2"
        assert (await node.ask("PUT", f"{V1}/send/1", {})).status == 200
        node.clock.now += 2
        assert (await node.ask("GET", f"{V1}/state/!r:a.test")).status == 200
        limited = [row for row in await node.all_rows() if row.outcome == "rate_limited"]
        assert [(row.peer, row.act) for row in limited] == [(node.peer, "state")]
        assert limited[0].detail is not None
        assert limited[0].detail.endswith("(3 times)")


async def test_unsigned_requests_are_limited_by_address(database: Database, tmp_path: Path) -> None:
    """Keys, version and the like; not health checks and client endpoints."""
    limits = PeerLimits(unsigned=Rate(1, 2), shared_addresses=())
    async with watched(database, tmp_path, limits) as node:
        paths = ("/_matrix/key/v2/server", f"{V1}/version", "/_matrix/key/v2/server/", f"{V1}/version")
        assert [(await node.ask("GET", path, signer=None)).status for path in paths] == [200, 200, 429, 429]
        for path in ("/_matrix/client/versions", "/health/live", "/nothing"):
            assert (await node.ask("GET", path, signer=None)).status in {200, 404}
        assert (await node.ask("GET", f"{V1}/state/!r:a.test")).status == 200
        rows = await node.all_rows()
        assert [(row.peer, row.act, row.outcome) for row in rows] == [
            (None, "server_keys", "rate_limited"),
            (None, "version", "rate_limited"),
            (node.peer, "state", "done"),
        ]


async def test_an_aborted_download_is_recorded_as_abandoned(database: Database, tmp_path: Path) -> None:
    """It is not an error of this server."""
    async with watched(database, tmp_path) as node:
        with pytest.raises(EOFError):
            await node.ask("GET", f"{V1}/media/download/left")
        [row] = await node.all_rows()
        assert (row.act, row.subject, row.outcome) == ("media_download", "left", "abandoned")


async def test_other_requests_are_not_recorded(database: Database, tmp_path: Path) -> None:
    """Unknown paths and methods."""
    async with watched(database, tmp_path) as node:
        assert (await node.ask("GET", "/nothing", signer=None)).status == 404
        assert (await node.ask("POST", f"{V1}/state/!r:a.test", {})).status == 405
        assert await node.all_rows() == []


@pytest.mark.parametrize("hostile", ["%00", "%ff", "%ED%A0%80", "x" * 5000, "%7B%7D"])
async def test_any_path_is_recorded(database: Database, tmp_path: Path, hostile: str) -> None:
    """Without an error."""
    async with watched(database, tmp_path) as node:
        answer = await node.ask("PUT", f"{V2}/send_leave/{hostile}/{hostile}", {"sender": "\0"})
        assert answer.status == 200
        [row] = await node.rows()
        assert row.room_id
