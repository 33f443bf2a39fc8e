"""The listener: starting, serving and closing."""

import asyncio
import contextlib
import gc
import weakref
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.http.responses import json_response
from federation.http.server.capacity import Limits
from federation.http.server.connection import Connection
from federation.http.server.deadlines import Phase
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.tls import Tls, TlsFiles
from storage.errors import LocalError
from tests.federation.http.running import (
    KEYS,
    LOOPS,
    TIMEOUT,
    Client,
    Recorder,
    Running,
    client_context,
    running,
    start,
)
from tests.support.tls import Authority

GATE = b"GET /gate HTTP/1.1\r\nHost: x\r\n\r\n"


class Gate:
    """A handler that responds when the test allows it, and records its cancellation."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = False

    async def handle(self, request: web.Request) -> web.Response:
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return json_response({"waited": True})

    @property
    def routes(self) -> list[web.RouteDef]:
        return [web.get("/gate", self.handle)]


async def test_one_port_serves_tls_and_plain_http(tls_files: TlsFiles, authority: Authority) -> None:
    """The first byte of a connection decides."""
    async with running(tls=Tls(tls_files)) as node:
        for context in (None, client_context(authority)):
            async with await node.connect(context) as client:
                answer = await client.ask("/_matrix/key/v2/server")
                assert (answer.status, answer.body) == (200, KEYS)
                assert answer.headers["server"] == "palaver"
        await node.seen.until(lambda seen: len(seen.closed) == 2)
        assert node.seen.opened == ["plain", "tls"]
        assert node.seen.answered == [("/_matrix/key/v2/server", "GET", 200)] * 2


async def test_every_address_is_served_and_reported() -> None:
    """With the chosen port."""
    async with running(binds=(Bind("127.0.0.1"), Bind("127.0.0.2"), Bind("::1", optional=True))) as node:
        assert {address.port for address in node.listener.addresses} == {node.port}
        for address in node.listener.addresses:
            async with Client(*await asyncio.open_connection(address.host, node.port)) as client:
                assert (await client.ask()).status == 200


async def test_a_port_in_use_fails_the_start(tls_files: TlsFiles) -> None:
    """With a LocalError; nothing stays bound."""
    async with running() as node:
        settings = ListenerSettings([Bind("127.0.0.2"), Bind("127.0.0.1")], node.port)
        with pytest.raises(LocalError, match="is in use"):
            await Listener(web.Application(), settings, None, Recorder()).start()
        free = ListenerSettings([Bind("127.0.0.2")], node.port)
        listener = Listener(web.Application(), free, Tls(tls_files), Recorder())
        await listener.start()
        await listener.close(TIMEOUT)


async def test_an_application_that_does_not_start_leaves_nothing_bound() -> None:
    """Its exception is raised."""

    async def fail(app: web.Application) -> None:
        raise LocalError("It is broken.", "Mend it.")

    app = web.Application()
    app.on_startup.append(fail)
    listener = Listener(app, ListenerSettings([Bind("127.0.0.1")], 0), None, Recorder())
    with pytest.raises(LocalError, match="broken"):
        await listener.start()
    (address,) = listener.addresses
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(address.host, address.port)
    await listener.close(TIMEOUT)


@pytest.mark.parametrize("secure", [False, True])
async def test_close_lets_requests_finish(tls_files: TlsFiles, authority: Authority, secure: bool) -> None:
    """No connections are accepted, idle ones are closed, and the last response is sent."""
    gate = Gate()
    async with running(tls=Tls(tls_files), routes=gate.routes) as node:
        context = client_context(authority) if secure else None
        async with await node.connect(context) as busy, await node.connect(context) as idle:
            assert (await idle.ask()).status == 200
            await busy.send(GATE)
            await gate.entered.wait()
            closing = asyncio.create_task(node.listener.close(TIMEOUT))
            assert await idle.is_closed()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", node.port)
            assert not closing.done()
            gate.opened.set()
            answer = await busy.answer()
            assert answer.json == {"waited": True}
            assert answer.headers["connection"] == "close"
            assert await busy.is_closed()
            await closing
        assert not gate.cancelled


async def test_close_lets_a_body_arrive() -> None:
    """The request is in progress when its head has arrived."""

    async def size(request: web.Request) -> web.Response:
        return json_response({"size": len(await request.read())})

    async with running(routes=[web.put("/size", size)]) as node, await node.connect() as client:
        await client.send(b"PUT /size HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
        await node.phase_is(Phase.BODY)
        closing = asyncio.create_task(node.listener.close(TIMEOUT))
        await asyncio.sleep(0)
        await client.send(b"cd")
        assert (await client.answer()).json == {"size": 4}
        await closing


async def test_close_lets_a_head_arrive() -> None:
    """A request that has begun gets a response."""
    async with running() as node, await node.connect() as client:
        await client.send(b"GET /health/live HTTP/1.1\r\n")
        await node.phase_is(Phase.HEAD)
        closing = asyncio.create_task(node.listener.close(TIMEOUT))
        await asyncio.sleep(0)
        await client.send(b"Host: x\r\n\r\n")
        assert (await client.answer()).status == 200
        assert await client.is_closed()
        await closing


@pytest.mark.parametrize("secure", [False, True])
async def test_close_cancels_requests_after_the_timeout(
    tls_files: TlsFiles, authority: Authority, secure: bool
) -> None:
    """Not before."""
    gate = Gate()
    async with running(tls=Tls(tls_files), routes=gate.routes) as node:
        async with await node.connect(client_context(authority) if secure else None) as client:
            await client.send(GATE)
            await gate.entered.wait()
            await node.listener.close(0.01)
            assert gate.cancelled
            assert await client.rest() == b""
        assert len(node.seen.closed) == 1


async def test_close_ends_connections_that_are_being_set_up(tls_files: TlsFiles) -> None:
    """A silent one, and one in its handshake."""
    async with running(tls=Tls(tls_files)) as node, await node.connect() as silent, await node.connect() as half:
        await half.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        while node.entrance._setups.running < 2:
            await asyncio.sleep(0)
        await node.listener.close(TIMEOUT)
        assert await silent.rest() == b""
        assert await half.rest() == b""


async def test_close_runs_shutdown_handlers() -> None:
    """A WebSocket is in progress until `on_shutdown` closes it."""
    sockets: weakref.WeakSet[web.WebSocketResponse] = weakref.WeakSet()

    async def socket(request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        sockets.add(response)
        async for message in response:
            assert message.type is WSMsgType.TEXT
        return response

    async def hang_up(app: web.Application) -> None:
        for one in list(sockets):
            await one.close()

    async with (
        running(routes=[web.get("/socket", socket)], on_shutdown=hang_up) as node,
        await node.connect() as client,
    ):
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        assert (await client.ask("/socket", headers=upgrade)).status == 101
        closing = asyncio.create_task(node.listener.close(TIMEOUT))
        assert (await client.reader.readexactly(1)) == b"\x88"
        # The client's close frame.
        await client.send(b"\x88\x80\0\0\0\0")
        await closing


async def test_close_continues_after_a_failed_shutdown_handler() -> None:
    """It is reported, and requests may still finish."""

    async def fail(app: web.Application) -> None:
        raise KeyError("injected")

    gate = Gate()
    async with running(routes=gate.routes, on_shutdown=fail) as node, await node.connect() as client:
        await client.send(GATE)
        await gate.entered.wait()
        closing = asyncio.create_task(node.listener.close(TIMEOUT))
        await node.seen.until(lambda seen: seen.problems)
        gate.opened.set()
        assert (await client.answer()).json == {"waited": True}
        await closing
        assert [type(error) for _, error in node.seen.problems] == [KeyError]
        node.seen.problems.clear()


async def test_a_handler_that_ignores_cancellation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed, and the node stops."""
    monkeypatch.setattr("federation.http.server.listener.CANCEL_TIMEOUT", 0.01)
    entered, ended = asyncio.Event(), asyncio.Event()

    async def stubborn(request: web.Request) -> web.Response:
        entered.set()
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()
        return json_response({})

    async with running(routes=[web.get("/gate", stubborn)]) as node, await node.connect() as client:
        await client.send(GATE)
        await entered.wait()
        await node.listener.close(0.01)
        assert await client.rest() == b""
        assert [sentence for sentence, _ in node.seen.problems] == [
            "Some requests did not end after they were cancelled."
        ]
        ended.set()
        node.seen.problems.clear()


async def test_close_is_idempotent() -> None:
    """Also if the start had failed."""
    async with running() as node:
        await node.listener.close(TIMEOUT)
        await node.listener.close(TIMEOUT)


async def test_the_port_is_free_after_close() -> None:
    """For a restart."""
    async with running() as node:
        await node.listener.close(TIMEOUT)
        again = Listener(web.Application(), ListenerSettings([Bind("127.0.0.1")], node.port), None, Recorder())
        await again.start()
        await again.close(TIMEOUT)


async def test_nothing_leaks(tls_files: TlsFiles, authority: Authority) -> None:
    """No files, tasks or connection objects after many connections of each kind."""
    context = client_context(authority)
    tls = Tls(tls_files)

    async def life() -> None:
        async with running(tls=tls) as node:
            for number in range(6):
                async with await node.connect(context if number % 2 else None) as client:
                    assert (await client.ask()).status == 200
                    if number == 0:
                        await client.send(b"junk\r\n\r\n")
                        assert (await client.answer()).status == 400

    await life()
    await asyncio.sleep(0.01)
    files, tasks, connections = _open_files(), len(asyncio.all_tasks()), _connections()
    for _ in range(3):
        await life()
    await asyncio.sleep(0.01)
    assert _open_files() <= files
    assert len(asyncio.all_tasks()) <= tasks
    assert _connections() <= connections


# Sizes that the input can exceed. The timeouts only end the test if a connection does not end.
FUZZED = Limits(max_connections=50, max_head=2000, max_line=1000, max_body=1000, linger_timeout=1.0)
FRAGMENTS = [
    b"GET ", b"PUT ", b"/", b"/health/live", b"/_matrix/key/v2/server/", b"http://x/", b"*", b"%00", b"\0",
    b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\r\n\r\n", b"\n", b"Host: x", b"Content-Length: 3",
    b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: close", b"Upgrade: websocket",
    b"Connection: Upgrade", b"Authorization: X-Matrix origin=a", b": ", b",", b"0\r\n\r\n", b"3\r\nabc\r\n",
    b" ", b"Content-Length: ", b"\x16", b"\x16\x03\x01", b"\xff", b"x" * 1200, b"CONNECT x:1 ",
    b"Content-Encoding: gzip",
]  # fmt: skip
requests = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=20), max_size=25).map(b"".join)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_port_survives_any_input(loop: str, tls_files: TlsFiles) -> None:
    """No unexpected error is reported, there is no 500, and the next request is served."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        node = runner.run(start(tls=Tls(tls_files), limits=FUZZED))

        @settings(max_examples=150, deadline=None)
        @given(st.lists(requests, min_size=1, max_size=3))
        def throw(pieces: list[bytes]) -> None:
            runner.run(_throw(node, pieces))

        try:
            throw()
        finally:
            runner.run(node.listener.close(1.0))
    assert len(node.seen.opened) == len(node.seen.closed)


async def _throw(node: Running, pieces: list[bytes]) -> None:
    async with await node.connect() as client:
        try:
            for piece in pieces:
                await client.send(piece)
                # Time for the listener to read it separately, and for a response.
                for _ in range(10):
                    await asyncio.sleep(0)
            client.writer.write_eof()
            answers = await client.rest()
        except OSError:
            answers = b""
    assert b" 500 " not in answers
    assert b"Traceback" not in answers
    assert b"aiohttp" not in answers
    assert node.seen.problems == []
    async with await node.connect() as client:
        assert (await client.ask()).status == 200


def _connections() -> int:
    gc.collect()
    return sum(isinstance(one, Connection) for one in gc.get_objects())


def _open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))
