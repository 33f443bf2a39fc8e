"""HTTP connections: timeouts, limits and parser errors."""

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from federation.http.responses import json_response
from federation.http.server.capacity import Limits
from federation.http.server.deadlines import Phase
from federation.http.server.tls import Tls, TlsFiles
from tests.federation.http.running import PATIENT, TIMEOUT, client_context, running
from tests.support.tls import Authority

GET = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
SOON = 0.02


async def size(request: web.Request) -> web.Response:
    return json_response({"size": len(await request.read())})


class Gate:
    """A handler that responds when the test allows it."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        self.entered.set()
        await self.opened.wait()
        return json_response({"waited": True})

    @property
    def route(self) -> web.RouteDef:
        return web.get("/gate", self.handle)


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\n", GET[:-2]])
async def test_a_head_that_does_not_arrive_is_answered_408(sent: bytes) -> None:
    """In JSON; then the connection is closed."""
    async with running(limits=replace(PATIENT, head_timeout=SOON)) as node, await node.connect() as client:
        await client.send(sent)
        answer = await client.answer()
        assert (answer.status, answer.json["errcode"]) == (408, "M_UNKNOWN")
        assert answer.headers["connection"] == "close"
        assert await client.is_closed()
        assert node.seen.expired[0] == "head"
        assert node.seen.answered == [("unreadable", "other", 408)]


async def test_a_dribbled_head_is_answered_408() -> None:
    """The time counts from its first byte."""
    async with running(limits=replace(PATIENT, head_timeout=0.1)) as node, await node.connect() as client:

        async def dribble() -> None:
            await client.send(b"GET / HTTP/1.1\r\nX: ")
            while not client.reader.at_eof():
                client.writer.write(b"x")
                await asyncio.sleep(0.001)

        dribbling = asyncio.create_task(dribble())
        assert (await client.answer()).status == 408
        dribbling.cancel()


async def test_the_second_head_has_its_own_time() -> None:
    """Of a persistent connection."""
    async with running(limits=replace(PATIENT, head_timeout=SOON)) as node, await node.connect() as client:
        await client.send(GET + b"GE")
        assert (await client.answer()).status == 200
        await client.send(b"T ")
        assert (await client.answer()).status == 408


async def test_a_slow_head_in_tls_is_answered_408(tls_files: TlsFiles, authority: Authority) -> None:
    """The connection is closed although TLS cannot close one direction alone."""
    limits = replace(PATIENT, head_timeout=SOON, linger_timeout=SOON)
    async with (
        running(tls=Tls(tls_files), limits=limits) as node,
        await node.connect(client_context(authority)) as client,
    ):
        await client.send(b"GET ")
        assert (await client.answer()).status == 408
        assert await client.is_closed()


async def test_a_silent_tls_connection_is_closed(tls_files: TlsFiles, authority: Authority) -> None:
    """After the handshake a head has to begin in time."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, head_timeout=SOON)) as node:
        async with await node.connect(client_context(authority)) as client:
            assert await client.is_closed()
        assert node.seen.expired == ["opening"]


async def test_an_idle_connection_is_closed() -> None:
    """Without a response: the peer may be about to send a request, and notices that it was not read."""
    async with running(limits=replace(PATIENT, idle_timeout=SOON)) as node, await node.connect() as client:
        assert (await client.ask()).status == 200
        assert await client.is_closed()
        assert node.seen.expired == ["idle"]


async def test_handlers_are_not_limited_by_the_peers_timeouts() -> None:
    """They may take longer than all of these."""
    gate = Gate()
    limits = Limits(head_timeout=SOON, body_timeout=SOON, body_progress_timeout=SOON, idle_timeout=SOON)
    async with running(limits=limits, routes=[gate.route]) as node, await node.connect() as client:
        asking = asyncio.create_task(client.ask("/gate"))
        await gate.entered.wait()
        await asyncio.sleep(3 * SOON)
        gate.opened.set()
        assert (await asking).status == 200
        assert node.seen.expired == []


async def test_a_body_that_stops_is_answered_408() -> None:
    """Too few bytes arrive in a period."""
    limits = replace(PATIENT, body_progress_timeout=SOON, body_progress=100)
    async with running(limits=limits, routes=[web.put("/size", size)]) as node, await node.connect() as client:
        await client.send(b"PUT /size HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx")
        answer = await client.answer()
        assert (answer.status, answer.json["errcode"]) == (408, "M_UNKNOWN")
        assert await client.is_closed()
        assert node.seen.expired[0] == "body"
        assert node.seen.answered == [("unmatched", "PUT", 408)]


async def test_a_body_that_takes_too_long_is_answered_408() -> None:
    """However steadily it arrives."""
    limits = replace(PATIENT, body_timeout=0.1, body_progress=1, body_progress_timeout=0.05)
    async with running(limits=limits, routes=[web.put("/size", size)]) as node, await node.connect() as client:

        async def dribble() -> None:
            await client.send(b"PUT /size HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            while not client.reader.at_eof():
                client.writer.write(b"x")
                await asyncio.sleep(0.001)

        dribbling = asyncio.create_task(dribble())
        assert (await client.answer()).status == 408
        dribbling.cancel()


async def test_a_peer_that_does_not_read_its_response_is_disconnected() -> None:
    """Its response would stay in memory for ever."""

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    limits = replace(PATIENT, stall_timeout=SOON)
    async with running(limits=limits, routes=[web.get("/endless", endless)]) as node:
        async with await node.connect() as client:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio offers no other way
            await client.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await node.seen.until(lambda seen: seen.closed)
        assert node.seen.expired == ["answering"]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 200 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a" * 200 + b": x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: x\r\n" * 20 + b"\r\n",
    ],
)
async def test_long_lines_and_too_many_fields_are_answered_431(sent: bytes) -> None:
    """The request line, a value, a name, and the number of fields."""
    limits = replace(PATIENT, max_line=100, max_fields=10)
    async with running(limits=limits) as node, await node.connect() as client:
        await client.send(sent)
        answer = await client.answer()
        assert (answer.status, answer.json["errcode"]) == (431, "M_TOO_LARGE")
        assert await client.is_closed()


async def test_the_connection_ends_at_once_after_a_last_response() -> None:
    """Though this side still drops bytes of the peer for a while."""
    async with running(limits=replace(PATIENT, linger_timeout=TIMEOUT)) as node, await node.connect() as client:
        await client.send(b"junk\r\n\r\n")
        assert (await client.answer()).status == 400
        assert await client.is_closed()
        assert node.seen.expired == []


async def test_an_endless_head_is_answered_431() -> None:
    """While it arrives; the response can be read."""
    async with running(limits=replace(PATIENT, max_head=1000)) as node, await node.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\n")
        client.writer.write(b"X: x\r\n" * 90 + b"Y: " + b"y" * 600)
        client.writer.write(b"y" * 200_000)
        answer = await client.answer()
        assert (answer.status, answer.json["errcode"]) == (431, "M_TOO_LARGE")
        await node.seen.until(lambda seen: len(seen.answered) == 1)


BAD = {
    "not HTTP": b"HELO kitchen.local\r\n\r\n",
    "an unknown version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a NUL in the path": b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\nHost: x\0\r\n\r\n",
    "a blank in a name": b"GET / HTTP/1.1\r\nHost: x\r\nX : x\r\n\r\n",
    "a folded field": b"GET / HTTP/1.1\r\nHost: x\r\nX: x\r\n y\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "the same length twice": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na",
    "a negative length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a length with a sign": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
    "a length in words": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: one\r\n\r\n",
    "a monstrous length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"
    b"\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunks and length": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5"
    b"\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunks that are not last": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
    "chunks in disguise": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a chunk without a size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a bare line feed": b"GET / HTTP/1.1\nHost: x\n\n",
    "an empty absolute form": b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
    "an old WebSocket": b"GET / HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Key1: x\r\n\r\n",
}


@pytest.mark.parametrize("what", BAD)
async def test_an_invalid_request_is_answered_400_in_json(what: str) -> None:
    """Once; then the connection is closed and the rest ignored."""
    async with running(routes=[web.get("/smuggled", size)]) as node, await node.connect() as client:
        await client.send(BAD[what])
        answer = await client.answer()
        assert (answer.status, answer.json["errcode"]) == (400, "M_UNKNOWN")
        assert "x" not in answer.json["error"]
        assert await client.is_closed()
        assert node.seen.answered == [("unreadable", "other", 400)]


async def test_http_0_9_is_answered_and_closed() -> None:
    """A request of one line."""
    async with running() as node, await node.connect() as client:
        await client.send(b"GET /\r\n\r\n")
        assert b"M_UNRECOGNIZED" in await client.rest()


STRANGE = {
    "absolute form": b"http://elsewhere.example/health/live",
    "absolute form of another scheme": b"ftp://elsewhere.example/health/live",
    "absolute form with a strange host": b"http://[::1]:99999/",
    "absolute form with a user": b"http://user:word@elsewhere.example/health/live",
    "dots": b"/health/../health/live",
    "encoded dots": b"/health/%2e%2e/health/live",
    "an encoded NUL": b"/health/%00/live",
    "an encoded slash": b"/health%2Flive",
    "half an escape": b"/health/live%",
    "a bad escape": b"/health/%zz",
    "no UTF-8": b"/health/%ff%fe",
    "raw bytes": b"/health/\xff\xfe",
    "a fragment": b"/health/live#fragment",
    "double slashes": b"//health//live",
    "a very long path": b"/" + b"a/" * 7000,
    "a monstrous query": b"/health/live?" + b"a=b&" * 3000,
    "braces": b"/{}",
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_any_path_gets_a_json_response(what: str, method: str) -> None:
    """Never a 500, and nothing is reported."""
    async with running() as node, await node.connect() as client:
        await client.send(method.encode() + b" " + STRANGE[what] + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await client.answer()
        assert answer.json
        assert answer.status in (200, 400, 404, 405, 431)
    assert all(route.startswith(("/health/", "un")) for route, _, _ in node.seen.answered)


@pytest.mark.parametrize("sent", [b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_other_request_targets_are_unrecognized(sent: bytes) -> None:
    """The node is no proxy and has no server-wide options."""
    async with running() as node, await node.connect() as client:
        await client.send(sent)
        assert (await client.answer()).status == 404


async def test_an_unsupported_upgrade_is_ignored() -> None:
    """Following bytes are parsed as requests."""
    async with running() as node, await node.connect() as client:
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
        assert (await client.ask(headers=upgrade)).status == 200
        assert (await client.ask()).status == 200


async def test_an_invalid_body_is_answered_at_once() -> None:
    """A handler must not wait for the rest."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        await client.send(b"PUT /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await node.phase_is(Phase.BODY)
        await client.send(b"no chunk\r\n")
        answer = await client.answer()
        assert (answer.status, answer.json["errcode"]) == (400, "M_UNKNOWN")
        assert await client.is_closed()
        assert len(node.seen.answered) == 1


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    """Even more than one read returns; they do not count as slow heads."""
    async with running(limits=replace(PATIENT, head_timeout=TIMEOUT)) as node, await node.connect() as client:
        client.writer.write(GET * 200)
        for _ in range(200):
            assert (await client.answer()).status == 200
        assert (await client.ask()).status == 200
        assert node.seen.expired == []


async def test_a_request_waits_for_a_slow_one_before_it() -> None:
    """Although it arrived in pieces."""
    gate = Gate()
    async with running(routes=[gate.route]) as node, await node.connect() as client:
        await client.send(b"GET /gate HTTP/1.1\r\nHost: x\r\n\r\n" + GET[:10])
        await gate.entered.wait()
        await client.send(GET[10:])
        gate.opened.set()
        assert (await client.answer()).json == {"waited": True}
        assert (await client.answer()).json == {"status": "alive"}


async def test_a_failure_before_there_is_a_request_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is closed, because there is nothing to respond to."""

    def fail(self: object, *args: object) -> None:
        raise ValueError("injected")

    async with running() as node:
        monkeypatch.setattr("federation.http.server.connection.Connection.begin", fail)
        async with await node.connect() as client:
            await client.send(GET)
            assert await client.is_closed()
        assert [str(error) for _, error in node.seen.problems] == ["injected"]
        node.seen.problems.clear()


async def test_a_peer_that_disconnects_is_not_reported() -> None:
    """The handler ends normally."""
    gate = Gate()
    async with running(routes=[gate.route]) as node:
        async with await node.connect() as client:
            await client.send(b"GET /gate HTTP/1.1\r\nHost: x\r\n\r\n")
            await gate.entered.wait()
        await node.seen.until(lambda seen: seen.closed)
        gate.opened.set()
