"""The routes to Socket.IO and the version handshake in front of it."""

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler

from bridge.connectors.offices.protocol.versions import AcceptedVersion, ProtocolLine, ProtocolVersion
from bridge.connectors.offices.server.socket_io import ACCEPTED, routes


@pytest.fixture
async def client() -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        accepted = request.get(ACCEPTED)
        return web.json_response(None if accepted is None else str(accepted.version))

    app = web.Application()
    app.add_routes(list(routes("/socket.io/", handle, [ProtocolLine(0, 4)], accept_unversioned=True)))
    async with TestClient(TestServer(app)) as made:
        yield made


async def test_the_accepted_version_is_stored_in_the_request(client: TestClient[web.Request, web.Application]) -> None:
    """With and without a trailing slash. The first of several values counts."""
    for path in ("/socket.io", "/socket.io/"):
        answer = await client.get(f"{path}?a2c_version=0.4.7&a2c_version=9.9.9")
        assert await answer.json() == "0.4.7"
    assert await (await client.get("/socket.io/")).json() == "None"
    assert AcceptedVersion(ProtocolVersion(0, 4, 7)) != AcceptedVersion(None)


async def test_the_version_is_not_checked_again_within_a_session(
    client: TestClient[web.Request, web.Application],
) -> None:
    """Clients repeat the parameter or omit it; only the first request of a session is checked."""
    assert await (await client.post("/socket.io/?sid=x&a2c_version=9.9.9")).json() is None


@pytest.mark.parametrize("version", ["9.9.9", "abc", "", "0.4"])
async def test_a_version_is_refused_before_socket_io(
    client: TestClient[web.Request, web.Application], version: str
) -> None:
    """The refusal is JSON with a content length, for every method, and only at the exact path."""
    for method in ("GET", "POST", "OPTIONS"):
        async with client.request(method, "/socket.io/", params={"a2c_version": version}) as answer:
            assert answer.status == 400
            assert answer.headers[aiohttp.hdrs.CONTENT_TYPE] == "application/json"
            assert json.loads(await answer.read())["code"] in {400, 4008}
    assert (await client.get("/socket.iox", params={"a2c_version": version})).status == 404


async def test_a_body_that_was_already_read_can_be_read_again() -> None:
    """The node's middleware reads every body first, but Engine.IO reads it from the request."""

    @web.middleware
    async def read_first(request: web.Request, handler: Handler) -> web.StreamResponse:
        await request.read()
        return await handler(request)

    async def handle(request: web.Request) -> web.StreamResponse:
        first = await request.content.read(3)
        return web.Response(body=first + b"|" + await request.content.read(100))

    app = web.Application(middlewares=[read_first])
    app.add_routes(list(routes("/socket.io", handle, [ProtocolLine(0, 4)], accept_unversioned=True)))
    async with TestClient(TestServer(app)) as client:
        answer = await client.post("/socket.io/?sid=x", data=b"40/smcp,")
        assert await answer.read() == b"40/|smcp,"
