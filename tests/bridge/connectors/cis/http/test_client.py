"""The client that sends single events."""

import asyncio

import pytest
from aiohttp import web

from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.protocol.error_codes import Delivered, PermanentFailure, TemporaryFailure
from tests.bridge.connectors.cis.published_node import PublishedNode
from tests.support.ports import lasting_port


async def test_an_event_is_delivered(theirs: PublishedNode) -> None:
    """To the peer's URL, including its path, and also if the event is large."""
    client = EventClient("Palaver/test")
    try:
        for padding in (0, 1_900_000):
            body = b'{"event_id":"$1","type":"t","x":"%s"}' % (b"x" * padding)
            assert await client.send(f"{theirs.url}/", body) == Delivered()
            assert (await theirs.taken.get())["event_id"] == "$1"
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, {"accepted": False, "error": "no", "event_id": "$1"}, PermanentFailure),
        (200, {"accepted": False, "error": "no", "event_id": "$1"}, PermanentFailure),
        (500, {"accepted": False}, TemporaryFailure),
        (429, {}, TemporaryFailure),
    ],
)
async def test_the_response_decides_the_result(
    theirs: PublishedNode, status: int, body: object, expected: type[PermanentFailure | TemporaryFailure]
) -> None:
    """The client itself never retries."""
    theirs.answers = [(status, body)]
    client = EventClient("Palaver/test")
    try:
        assert isinstance(await client.send(theirs.url, b'{"event_id":"$1"}'), expected)
    finally:
        await client.close()
    assert theirs.attempts == 1


async def test_an_unreachable_peer_is_a_temporary_failure() -> None:
    """A refused connection, a timeout, an unknown host or an endless response: a retry may succeed."""
    port = lasting_port()

    over = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await over.wait()
        return web.Response()

    async def pour(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x" * 10_000)
        return response

    client = EventClient("Palaver/test", timeout=0.5)
    app = web.Application()
    app.add_routes([web.post("/hang{x:.*}", hang), web.post("/pour{x:.*}", pour)])
    runner = web.AppRunner(app, shutdown_timeout=0)
    try:
        assert isinstance(await client.send(f"http://127.0.0.1:{port}", b"{}"), TemporaryFailure)
        assert isinstance(await client.send("http://", b"{}"), TemporaryFailure)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        assert await client.send(f"http://127.0.0.1:{port}/hang", b"{}") == TemporaryFailure("did not respond in time")
        assert isinstance(await client.send(f"http://127.0.0.1:{port}/pour", b"{}"), PermanentFailure)
    finally:
        over.set()
        await client.close()
        await runner.cleanup()


async def test_redirects_are_not_followed(theirs: PublishedNode) -> None:
    """A peer could otherwise make the node send requests within its own network."""
    port = lasting_port()

    async def lead(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"{theirs.url}/_cis/v1/event/receive")

    client = EventClient("Palaver/test")
    app = web.Application()
    app.add_routes([web.post("/{x:.*}", lead)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        assert not isinstance(await client.send(f"http://127.0.0.1:{port}", b'{"event_id":"$1"}'), Delivered)
    finally:
        await client.close()
        await runner.cleanup()
    assert theirs.attempts == 0
