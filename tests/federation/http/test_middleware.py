"""The middleware: errors, bodies and time limits."""

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from federation.http.middleware import PeerDisconnected
from federation.http.responses import json_response
from federation.http.server.deadlines import Phase
from federation.http.server.tls import Tls, TlsFiles
from federation.matrix.errors import MatrixError, PeerError
from storage.errors import LocalError
from tests.federation.http.running import PATIENT, Answer, Running, client_context, running
from tests.support.tls import Authority

LARGE = b"x" * 300_000


async def size(request: web.Request) -> web.Response:
    return json_response({"size": len(await request.read())})


def raising(error: BaseException) -> web.RouteDef:
    async def handler(request: web.Request) -> web.Response:
        raise error

    return web.get("/raise", handler)


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (MatrixError("M_FORBIDDEN", "No.", 403), 403, {"errcode": "M_FORBIDDEN", "error": "No."}),
        (web.HTTPNotFound(text="/secret"), 404, {"errcode": "M_UNRECOGNIZED", "error": "Unrecognized request"}),
        (web.HTTPForbidden(text="/secret"), 403, {"errcode": "M_FORBIDDEN", "error": "Forbidden"}),
        (web.HTTPUnauthorized(), 401, {"errcode": "M_UNAUTHORIZED", "error": "Unauthorized"}),
        (web.HTTPTooManyRequests(), 429, {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}),
        (web.HTTPBadRequest(text="/secret"), 400, {"errcode": "M_UNKNOWN", "error": "Bad Request"}),
    ],
)
async def test_errors_are_matrix_errors(error: Exception, status: int, body: dict[str, str]) -> None:
    """In JSON, without aiohttp's texts."""
    async with running(routes=[raising(error)]) as node, await node.connect() as client:
        answer = await client.ask("/raise")
        assert (answer.status, answer.json) == (status, body)
        assert node.seen.answered == [("/raise", "GET", status)]
        # The connection stays open after a refusal.
        assert (await client.ask()).status == 200


@pytest.mark.parametrize(
    "error", [KeyError("/secret"), LocalError("/secret", "do"), TimeoutError("/secret"), AssertionError("/secret")]
)
async def test_an_unexpected_exception_is_reported(error: Exception) -> None:
    """The peer gets a 500 without details, the operator the traceback."""
    async with running(routes=[raising(error)]) as node, await node.connect() as client:
        answer = await client.ask("/raise")
        assert (answer.status, answer.json) == (500, {"errcode": "M_UNKNOWN", "error": "Internal server error"})
        ((_, reported),) = node.seen.problems
        assert reported is error
        assert reported.__traceback__ is not None
        assert (await client.ask()).status == 200
        node.seen.problems.clear()


async def test_a_failure_of_another_server_is_answered_502() -> None:
    """With its name."""
    error = PeerError("garden.local", "did not answer", "4.2")
    async with running(routes=[raising(error)]) as node, await node.connect() as client:
        answer = await client.ask("/raise")
        assert answer.status == 502
        assert answer.json["errcode"] == "M_UNKNOWN"
        assert "garden.local" in answer.json["error"]
        assert [reported for _, reported in node.seen.problems] == [error]
        node.seen.problems.clear()


async def test_a_redirect_is_no_error() -> None:
    """aiohttp raises redirects too."""
    async with running(routes=[raising(web.HTTPFound("/health/live"))]) as node, await node.connect() as client:
        answer = await client.ask("/raise")
        assert (answer.status, answer.headers["location"]) == (302, "/health/live")
        assert node.seen.answered == [("/raise", "GET", 302)]


async def test_a_failed_response_closes_the_connection() -> None:
    """Another response would be read as the rest of the first."""

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half of")
        raise KeyError("it")

    async with running(routes=[web.get("/broken", broken)]) as node, await node.connect() as client:
        await client.send(b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.rest()).endswith(b"\r\n\r\n7\r\nhalf of\r\n")
        ((sentence, _),) = node.seen.problems
        assert sentence == "A handler failed after its response had begun."
        node.seen.problems.clear()


async def test_a_handler_may_raise_peer_disconnected() -> None:
    """There is no response and no report, even if the event loop has not noticed yet."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half of")
        raise PeerDisconnected

    async with running(routes=[web.get("/left", handler)]) as node, await node.connect() as client:
        await client.send(b"GET /left HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.rest()).endswith(b"half of\r\n")


@pytest.mark.parametrize("body", [b"{}", LARGE])
async def test_a_handler_gets_the_complete_body(body: bytes) -> None:
    """Whether it arrived with the head or in pieces."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        assert (await client.ask("/size", "PUT", body)).json == {"size": len(body)}
        assert (await client.ask()).status == 200


async def test_a_chunked_body_is_received() -> None:
    """Its length is unknown beforehand."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        await client.send(b"PUT /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.send(b"3\r\nabc\r\n")
        await client.send(b"4;extension=1\r\ndefg\r\n0\r\nTrailer: x\r\n\r\n")
        assert (await client.answer()).json == {"size": 7}
        assert (await client.ask()).status == 200


@pytest.mark.parametrize("path", ["/health/live", "/nowhere"])
async def test_an_unread_body_does_not_affect_the_next_request(path: str) -> None:
    """It would be parsed as that request."""
    async with running() as node, await node.connect() as client:
        assert (await client.ask(path, "POST", b"GET /x HTTP/1.1\r\n\r\n")).status in (404, 405)
        assert (await client.ask()).status == 200
        assert [status for _, _, status in node.seen.answered][1:] == [200]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("length", [11, 1_000_000])
async def test_a_body_that_is_too_large_is_refused(chunked: bool, length: int) -> None:
    """413 `M_TOO_LARGE`, as early as possible, and readable while the peer is sending."""
    async with running(limits=replace(PATIENT, max_body=10), routes=[web.put("/size", size)]) as node:
        async with await node.connect() as client:
            field = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % length
            start = b"%x\r\n" % length if chunked else b""
            client.writer.write(b"PUT /size HTTP/1.1\r\nHost: x\r\n" + field + b"\r\n\r\n" + start)
            client.writer.write(b"x" * length)
            answer = await client.answer()
            assert (answer.status, answer.json["errcode"]) == (413, "M_TOO_LARGE")
        await node.seen.until(lambda seen: seen.closed)


async def test_the_limit_of_a_body_is_inclusive() -> None:
    """A body of the maximum size is accepted."""
    async with (
        running(limits=replace(PATIENT, max_body=10), routes=[web.put("/size", size)]) as node,
        await node.connect() as client,
    ):
        assert (await client.ask("/size", "PUT", b"x" * 10)).json == {"size": 10}


async def test_all_bodies_together_are_limited() -> None:
    """With a 503: together they could exceed the memory."""
    limits = replace(PATIENT, max_body=1000, max_bodies=1500)
    async with running(limits=limits, routes=[web.put("/size", size)]) as node:
        head = b"PUT /size HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
        async with await node.connect() as first, await node.connect() as second:
            await first.send(head + b"x")
            await node.phase_is(Phase.BODY)
            await second.send(head + b"x")
            answer = await second.answer()
            assert (answer.status, answer.json["errcode"]) == (503, "M_LIMIT_EXCEEDED")
            assert "retry-after" in answer.headers
            await first.send(b"x" * 999)
            assert (await first.answer()).json == {"size": 1000}
        # A request releases its share when it is answered or aborted.
        for leaves in (True, False, False):
            async with await node.connect() as client:
                await client.send(head + b"x")
                await node.phase_is(Phase.BODY)
                if not leaves:
                    await client.send(b"x" * 999)
                    assert (await client.answer()).status == 200
            await node.seen.until(lambda seen: len(seen.closed) == len(seen.opened))


async def test_a_handler_that_hangs_is_cancelled() -> None:
    """The peer gets a response, and the handler's share of the budget is released."""
    body = b"x" * 1000
    limits = replace(PATIENT, max_body=1000, max_bodies=1000, response_timeout=0.05)

    async def never(request: web.Request) -> web.Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def ask(node: Running, path: str) -> Answer:
        async with await node.connect() as client:
            # In two pieces, so that the body is awaited and counted.
            await client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode())
            await node.phase_is(Phase.BODY)
            await client.send(body)
            return await client.answer()

    async with running(limits=limits, routes=[web.post("/never", never), web.post("/size", size)]) as node:
        for _ in range(3):
            answer = await ask(node, "/never")
            assert (answer.status, answer.json["errcode"]) == (503, "M_UNKNOWN")
        assert (await ask(node, "/size")).json == {"size": 1000}
        assert len(node.seen.problems) == 3
        node.seen.problems.clear()


async def test_a_response_that_has_begun_has_no_time_limit() -> None:
    """Streams and WebSockets may last."""
    limits = replace(PATIENT, response_timeout=0.05)
    go_on = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "2"})
        await response.prepare(request)
        await response.write(b"1")
        await go_on.wait()
        await response.write(b"2")
        return response

    async def never(request: web.Request) -> web.Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    routes = [web.get("/stream", stream), web.get("/never", never)]
    async with running(limits=limits, routes=routes) as node, await node.connect() as client:
        await client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.reader.readuntil(b"\r\n\r\n1")
        async with await node.connect() as later:
            assert (await later.ask("/never")).status == 503
        # The later request has timed out, so the earlier one has too.
        go_on.set()
        assert await client.reader.readexactly(1) == b"2"
        node.seen.problems.clear()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "GZIP", "chunked"])
async def test_an_encoded_body_is_refused(coding: str) -> None:
    """It could expand to a huge size, and no peer needs it."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        answer = await client.ask("/size", "PUT", b"x" * 100, {"Content-Encoding": coding})
        assert (answer.status, answer.json["errcode"]) == (415, "M_UNKNOWN")


async def test_identity_is_no_encoding() -> None:
    """It means no encoding."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        answer = await client.ask("/size", "PUT", b"abc", {"Content-Encoding": "identity"})
        assert answer.json == {"size": 3}


@pytest.mark.parametrize(("path", "status"), [("/size", 200), ("/nowhere", 404)])
async def test_expect_100_continue(path: str, status: int) -> None:
    """The interim response is sent once, and then the body is read."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        head = f"PUT {path}".encode() + b" HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n"
        await client.send(head)
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"abc")
        assert (await client.answer()).status == status
        assert (await client.ask()).status == 200


async def test_expect_100_continue_of_a_large_body_is_refused() -> None:
    """Before the body is sent."""
    async with (
        running(limits=replace(PATIENT, max_body=10), routes=[web.put("/size", size)]) as node,
        await node.connect() as client,
    ):
        head = b"PUT /size HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n"
        await client.send(head)
        assert (await client.answer()).status == 413
        assert await client.is_closed()


@pytest.mark.parametrize("path", ["/health/live", "/nowhere"])
async def test_other_expectations_are_refused(path: str) -> None:
    """With a 417 in JSON, before routing."""
    async with running() as node, await node.connect() as client:
        answer = await client.ask(path, headers={"Expect": "200-maybe"})
        assert (answer.status, answer.json["errcode"]) == (417, "M_UNKNOWN")


async def test_expect_is_ignored_in_http_1_0() -> None:
    """The header was introduced in 1.1."""
    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        await client.send(b"PUT /size HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
        assert (await client.rest()).endswith(b'{"size":3}')


async def test_a_head_that_is_too_large_as_a_whole_is_refused() -> None:
    """With a 431, although each line is allowed; a body sent with it does not count."""
    limits = replace(PATIENT, max_head=1000)
    async with running(limits=limits, routes=[web.put("/size", size)]) as node, await node.connect() as client:
        many = {f"X-{number}": "x" * 80 for number in range(12)}
        answer = await client.ask(headers=many)
        assert (answer.status, answer.json["errcode"]) == (431, "M_TOO_LARGE")
        few = {f"X-{number}": "x" * 80 for number in range(8)}
        assert (await client.ask("/size", "PUT", b"x" * 5000, few)).json == {"size": 5000}


async def test_a_peer_that_disconnects_in_its_body_is_not_reported() -> None:
    """Its resources are released."""
    async with running(routes=[web.put("/size", size)]) as node:
        async with await node.connect() as client:
            await client.send(b"PUT /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
            await node.seen.until(lambda seen: seen.opened)
            await node.phase_is(Phase.BODY)
        await node.seen.until(lambda seen: seen.closed)
        assert node.seen.problems == []


async def test_errors_over_tls(tls_files: TlsFiles, authority: Authority) -> None:
    """A last response can be read, although TLS cannot close one direction alone."""
    limits = replace(PATIENT, max_body=10)
    async with running(tls=Tls(tls_files), limits=limits) as node:
        async with await node.connect(client_context(authority)) as client:
            client.writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" + LARGE)
            assert (await client.answer()).status == 413
            client.writer.write(LARGE)
        await node.seen.until(lambda seen: seen.closed)
