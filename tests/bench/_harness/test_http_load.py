from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from bench._harness.child import ChildError
from bench._harness.http_load import Request, http_load
from bench._harness.ports import LOOPBACK, free_port


@asynccontextmanager
async def counting(status: int = 200) -> AsyncIterator[tuple[int, list[tuple[str, str, bytes]]]]:
    """A server that writes down what it is asked."""
    asked: list[tuple[str, str, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, await request.read()))
        return web.Response(status=status, text="x" * (len(asked) % 100_000))

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


def test_a_request_is_written_as_http() -> None:
    """With its length, if it has a body."""
    assert Request(port=80, target="/x").bytes == b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"
    request = Request(port=80, method="PUT", body=b"{}", headers={"X-A": "b"})
    assert request.bytes == b"PUT / HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-A: b\r\nContent-Length: 2\r\n\r\n{}"


async def test_every_counted_request_reached_the_server() -> None:
    """Answers of any length, on several connections; no more are counted than were answered."""
    async with counting() as (port, asked), http_load() as load:
        request = Request(port=port, method="PUT", target="/send/1", body=b"{}")
        measured = await load.measure(request, connections=4, seconds=0.05)
    assert measured.operations == len(asked) >= 4
    assert set(asked) == {("PUT", "/send/1", b"{}")}
    assert measured.seconds >= 0.05


async def test_an_answer_that_is_an_error_fails_the_measurement() -> None:
    """A server that refuses is fast, and its figure worthless."""
    async with counting(status=503) as (port, _), http_load() as load:
        with pytest.raises(ChildError, match=r"generator gave up: .* b'HTTP/1.1 503 Service Unavailable'"):
            await load.measure(Request(port=port), connections=1, seconds=0.05)


async def test_a_server_that_is_not_there_fails_the_measurement() -> None:
    """The generator itself goes on, for whoever measures next."""
    async with counting() as (port, _), http_load() as load:
        with pytest.raises(ChildError, match="the load generator gave up: "):
            await load.measure(Request(port=free_port()), connections=1, seconds=0.05)
        measured = await load.measure(Request(port=port), connections=1, seconds=0.01)
        assert measured.operations > 0
