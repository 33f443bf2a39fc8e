"""JSON responses and error responses."""

import json

from aiohttp import web

from federation.http.responses import error_response, json_response, raw_response
from federation.matrix.errors import MatrixError, limit_exceeded
from tests.federation.http.running import running


def test_json_is_encoded_once() -> None:
    """Objects are encoded; bytes are JSON already."""
    assert json_response({"a": 1}).body == b'{"a":1}'
    assert json_response(b'{"a": 1}').body == b'{"a": 1}'
    assert json_response({}).content_type == "application/json"


def test_retry_after_is_in_header_and_body() -> None:
    """Whole seconds, rounded up, in the header; milliseconds in the body."""
    answer = error_response(limit_exceeded("Later.", 429, 1500), {"X-More": "yes"})
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["retry_after_ms"] == 1500
    assert (answer.status, answer.headers["Retry-After"], answer.headers["X-More"]) == (429, "2", "yes")


def test_a_response_without_aiohttp_is_complete() -> None:
    """Status line, content type and length, Connection: close, and the same body."""
    head, body = raw_response(MatrixError("M_FORBIDDEN", "Non.", 403)).split(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 403 Forbidden"
    assert set(lines[1:]) == {
        "Server: palaver",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    }
    assert json.loads(body) == {"errcode": "M_FORBIDDEN", "error": "Non."}


async def test_no_response_has_a_software_version() -> None:
    """Neither streamed responses, nor WebSocket upgrades, nor parser errors."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        return response

    async def socket(request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        await response.close()
        return response

    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with running(routes=[web.get("/stream", stream), web.get("/socket", socket)]) as node:
        for path in ("/stream", "/socket", "/nowhere", "bad"):
            async with await node.connect() as client:
                answer = await client.ask(path, headers=upgrade if path == "/socket" else {})
                assert answer.headers["server"] == "palaver"
                assert "aiohttp" not in str(answer)
                assert "Python" not in str(answer)
