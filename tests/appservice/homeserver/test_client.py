"""Requests to the homeserver."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from mautrix.api import Method, Path

from appservice.homeserver import client as homeserver_client
from appservice.homeserver.api import HomeserverUnavailable
from appservice.homeserver.client import HomeserverClient, open_session
from federation.matrix.errors import MatrixError
from tests.appservice.homeservers import TOKEN, Homeserver, homeserver
from tests.support.loopback_server import raw_server
from tests.support.ports import lasting_port

GHOST = "@_agent_worker-1:their.server"
WHOAMI = Path.v3.account.whoami
SEND = Path.v3.rooms["!a/b:c"].send["m.room.message"]["1"]


async def test_requests_act_as_a_ghost() -> None:
    """Ids are quoted in the path, and the content is JSON."""
    async with homeserver(lambda request: {"event_id": "$1"}) as at:
        found = await at.client.request(Method.PUT, SEND, {"body": "ü"}, user=GHOST, ts=5, query={"server_name": "a b"})
        assert found == {"event_id": "$1"}
        (request,) = at.server.requests
        assert request.raw_path.split("?")[0] == ("/_matrix/client/v3/rooms/%21a%2Fb%3Ac/send/m.room.message/1")
        assert dict(request.query) == {"server_name": "a b", "user_id": GHOST, "ts": "5"}
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        assert request.headers["User-Agent"].startswith("Palaver/")
        assert request.headers["Content-Type"] == "application/json"
        assert at.server.bodies == ['{"body":"ü"}'.encode()]
        await at.client.request(Method.POST, Path.v3.join["!a:b"], token="another")
        assert at.server.requests[1].headers["Authorization"] == "Bearer another"
        assert at.server.bodies[1] == b"{}"
        await at.client.request(Method.GET, WHOAMI)
        assert at.server.bodies[2] == b""
        assert at.monitor.requests == [("PUT", "send", "ok"), ("POST", "join", "ok"), ("GET", "account", "ok")]
        assert at.monitor.outcomes == ["answered"] * 3


async def test_request_list() -> None:
    """A room's state is a JSON array and may be large."""
    said: list[object] = [[{"type": "x" * 9_000_000}], {}]
    async with homeserver(lambda request: said.pop(0)) as at:
        path = Path.v3.rooms["!a:b"].state
        (entry,) = await at.client.request_list(path, user=GHOST, query={"via": ["a", "b"]})
        assert len(entry["type"]) == 9_000_000
        assert at.server.requests[0].query.getall("via") == ["a", "b"]
        with pytest.raises(HomeserverUnavailable, match="not a JSON array"):
            await at.client.request_list(path)


@pytest.mark.parametrize("name", [".", ".."])
async def test_ids_cannot_change_the_path(name: str) -> None:
    """Dot segments are rejected."""
    async with homeserver(lambda request: {}) as at:
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await at.client.request(Method.PUT, Path.v3.rooms["!a:b"].send[name]["1"])
        await at.client.request(Method.PUT, Path.v3.rooms["!a:b"].send["...x"][".y."])
        assert at.targets == ["PUT /_matrix/client/v3/rooms/%21a%3Ab/send/...x/.y."]


async def test_connections_are_reused() -> None:
    """Sequential requests use one connection."""
    async with homeserver(lambda request: {}) as at:
        for _ in range(5):
            await at.client.request(Method.GET, WHOAMI)
        assert len(at.server.connections) == 1


async def test_invalid_json_is_not_sent() -> None:
    """Matrix JSON has no floats."""
    async with homeserver(lambda request: {}) as at:
        for content in ({"x": 1.5}, {"x": {1}}, {"x": "\ud800"}):
            with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
                await at.client.request(Method.PUT, SEND, content)
        assert at.server.requests == []


async def test_refusals_are_raised() -> None:
    """A refusal is a response, so the homeserver is available."""
    refusal = (403, {"errcode": "M_FORBIDDEN", "error": "Not in the room."})
    async with homeserver(lambda request: refusal) as at:
        with pytest.raises(MatrixError) as refused:
            await at.client.request(Method.GET, WHOAMI)
        assert (refused.value.errcode, refused.value.status, refused.value.text) == (
            "M_FORBIDDEN",
            403,
            "Not in the room.",
        )
        assert at.monitor.requests == [("GET", "account", "refused")]
        assert at.monitor.outcomes == ["answered"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (web.Response(status=502, text="<html>"), "HTTP status 502"),
        ((500, {"errcode": "M_UNKNOWN"}), "HTTP status 500, M_UNKNOWN"),
        ((401, {"errcode": "M_UNKNOWN_TOKEN"}), "it no longer knows the registration's as_token"),
        (web.Response(text="<html>"), "its response is not a JSON object"),
        ([], "its response is not a JSON object"),
        (web.Response(status=302, headers={"Location": "/x"}), "HTTP status 302"),
    ],
)
async def test_invalid_responses_mean_unavailable(said: object, reason: str) -> None:
    """The error names the reason and never the token."""
    async with homeserver(lambda request: said) as at:
        with pytest.raises(HomeserverUnavailable, match=reason) as away:
            await at.client.request(Method.GET, WHOAMI)
        assert at.client.url in away.value.problem
        assert TOKEN not in str(away.value)
        assert len(at.server.requests) == 1
        assert at.monitor.requests == [("GET", "account", "away")]
        assert at.monitor.outcomes == ["lost"]


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (b"", "it closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "it closed the connection"),
        (b"SSH-2.0-x\r\n\r\n", "its response is not HTTP"),
    ],
)
async def test_truncated_response_means_unavailable(says: bytes, reason: str) -> None:
    """It is unknown whether the request was processed."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(says)
        await writer.drain()

    async with raw_server(handle, None) as port, open_session() as session:
        client = HomeserverClient(session, f"http://127.0.0.1:{port}", TOKEN)
        with pytest.raises(HomeserverUnavailable, match=reason):
            await client.request(Method.POST, SEND)


async def test_refused_connection_and_silent_server() -> None:
    """The reasons differ."""
    async with open_session() as session:
        client = HomeserverClient(session, f"http://127.0.0.1:{lasting_port()}", TOKEN)
        with pytest.raises(HomeserverUnavailable, match="connection refused"):
            await client.request(Method.GET, WHOAMI)

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with raw_server(silent, None) as port:
            client = HomeserverClient(session, f"http://127.0.0.1:{port}", TOKEN)
            with pytest.raises(HomeserverUnavailable, match="the request timed out"):
                await client.request(Method.GET, WHOAMI, timeout_seconds=0.05)


async def test_rate_limited_requests_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the named pause; the refusal is raised if it takes too long."""
    limited = (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "Slow down.", "retry_after_ms": 10})
    answers: list[object] = [limited, limited, {}]
    async with homeserver(lambda request: answers.pop(0)) as at:
        assert await at.client.request(Method.PUT, SEND) == {}
        assert [outcome for _, _, outcome in at.monitor.requests] == ["limited", "limited", "ok"]
        monkeypatch.setattr(homeserver_client, "MAX_WAITING", 0.015)
        answers += [limited, limited, {}]
        with pytest.raises(MatrixError, match="429 M_LIMIT_EXCEEDED: Slow down"):
            await at.client.request(Method.PUT, SEND)
        assert len(answers) == 1


async def test_no_request_while_unavailable() -> None:
    """The homeserver receives no request while it is known to be unavailable."""
    async with homeserver(lambda request: {}) as at:
        at.monitor.unavailable = HomeserverUnavailable(at.client.url, "it is away")
        with pytest.raises(HomeserverUnavailable):
            await at.client.request(Method.GET, WHOAMI)
        assert (at.server.requests, at.monitor.requests, at.monitor.outcomes) == ([], [], [])


async def test_cancelled_requests_are_counted() -> None:
    """A cancellation says nothing about the homeserver."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()

    asked = asyncio.Event()
    async with raw_server(silent, None) as port, homeserver(lambda request: {}) as at, open_session() as session:
        client = HomeserverClient(session, f"http://127.0.0.1:{port}", TOKEN, observer=at.monitor, monitor=at.monitor)
        asking = asyncio.create_task(client.request(Method.GET, WHOAMI))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (at.monitor.requests, at.monitor.outcomes) == ([("GET", "account", "cancelled")], [])


# -- media --


async def pieces() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"x" * 100_000


@pytest.mark.parametrize("size", [0, 4, 300_000])
async def test_uploads_have_a_content_length(size: int) -> None:
    """Synapse accepts no others."""
    async with homeserver(lambda request: {"content_uri": "mxc://their.server/abc"}) as at:
        content = pieces() if size == 300_000 else b"x" * size
        assert await at.client.upload(GHOST, content, "image/png", "a b.png") == "mxc://their.server/abc"
        (request,) = at.server.requests
        assert dict(request.query) == {"filename": "a b.png", "user_id": GHOST}
        assert (request.headers["Content-Type"], request.headers["Content-Length"]) == ("image/png", str(size))
        assert at.server.bodies == [b"x" * size]


async def test_too_large_upload_is_not_sent() -> None:
    """A response without a valid mxc URI is an error."""
    async with homeserver(lambda request: {"content_uri": "http://x"}) as at:
        with pytest.raises(MatrixError, match="413 M_TOO_LARGE"):
            await at.client.upload(GHOST, pieces(), limit=250_000)
        assert at.server.requests == []
        with pytest.raises(HomeserverUnavailable, match="content_uri"):
            await at.client.upload(GHOST, b"x")


def media(request: web.Request) -> object:
    if request.path == "/_matrix/client/v1/media/download/their.server/new":
        return web.Response(
            body=b"x" * 100_000, content_type="image/png", headers={"Content-Disposition": 'inline; filename="a.png"'}
        )
    if request.path == "/_matrix/media/v3/download/their.server/old":
        return web.Response(body=b"old")
    return 404, {"errcode": "M_NOT_FOUND" if request.path.endswith("none") else "M_UNRECOGNIZED"}


async def read(at: Homeserver, mxc: str, **more: int) -> tuple[str | None, str | None, int | None, bytes]:
    async with at.client.download(mxc, user=GHOST, **more) as found:
        data = b"".join([piece async for piece in found.chunks])
        return found.content_type, found.file_name, found.size, data


async def test_media_is_downloaded_with_the_token() -> None:
    """Older homeservers only have the unauthenticated endpoint."""
    async with homeserver(media) as at:
        assert await read(at, "mxc://their.server/new") == ("image/png", "a.png", 100_000, b"x" * 100_000)
        assert at.server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert (await read(at, "mxc://their.server/old"))[3] == b"old"
        assert len(at.server.requests) == 3
        assert {kind for _, kind, _ in at.monitor.requests} == {"download"}


async def test_failed_downloads() -> None:
    """Unknown media, too much of it, an invalid URI, a redirect."""
    async with homeserver(media) as at:
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await read(at, "mxc://their.server/none")
        with pytest.raises(MatrixError, match="M_TOO_LARGE"):
            await read(at, "mxc://their.server/new", limit=99_999)
        for address in ("mxc://their.server/../x", "http://x/y", "mxc://a"):
            with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
                await read(at, address)

    def large(request: web.Request) -> web.Response:
        answer = web.Response(body=b"x" * 200_000)
        answer.enable_chunked_encoding()
        return answer

    async with homeserver(large) as at:
        with pytest.raises(MatrixError, match="M_TOO_LARGE"):
            await read(at, "mxc://their.server/abc", limit=100_000)
    async with homeserver(lambda request: web.Response(status=307, headers={"Location": "/x"})) as at:
        with pytest.raises(HomeserverUnavailable, match="HTTP status 307"):
            await read(at, "mxc://their.server/abc")
        assert len(at.server.requests) == 1
