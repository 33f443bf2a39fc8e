"""The application: routes and methods."""

import pytest
from aiohttp import web

from federation.http.responses import json_response
from tests.federation.http.running import running

PATHS = ["/_matrix/key/v2/server", "/_matrix/federation/v1/version", "/health/live", "/health/ready"]


@pytest.mark.parametrize("path", PATHS)
async def test_head_is_get_without_its_body(path: str) -> None:
    """With the same headers, including the length."""
    async with running() as node, await node.connect() as client:
        got, headed = await client.ask(path), await client.ask(path, method="HEAD")
        assert (headed.status, headed.body) == (200, b"")
        assert headed.headers["content-length"] == got.headers["content-length"]
        assert headed.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"])
async def test_a_wrong_method_is_answered_405(path: str, method: str) -> None:
    """`M_UNRECOGNIZED` with Allow, and no CORS headers."""
    async with running() as node, await node.connect() as client:
        answer = await client.ask(path, method=method)
        assert (answer.status, answer.json["errcode"]) == (405, "M_UNRECOGNIZED")
        assert answer.headers["allow"] == "GET,HEAD"
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "path", ["/", "/_matrix", "/_matrix/federation/v1/nothing", "/_matrix/key/v2/server/a/b", "/health", "//"]
)
async def test_unknown_paths_are_unrecognized(path: str) -> None:
    """404 `M_UNRECOGNIZED` in JSON, counted without the path."""
    async with running() as node, await node.connect() as client:
        answer = await client.ask(path)
        assert answer.status == 404
        assert answer.json == {"errcode": "M_UNRECOGNIZED", "error": "Unrecognized request"}
        assert node.seen.answered == [("unmatched", "GET", 404)]


async def test_additional_routes() -> None:
    """They are counted by their templates."""

    async def echo(request: web.Request) -> web.Response:
        return json_response({"raw": request.raw_path, "room": request.match_info["room"]})

    async with running(routes=[web.get("/room/{room:[^/]+}/x", echo)]) as node, await node.connect() as client:
        path = "/room/%21a%7Bb%7D%3Akitchen.local/x?via=%C3%A9&b"
        answer = await client.ask(path)
        assert answer.json == {"raw": path, "room": "!a{b}:kitchen.local"}
        assert node.seen.answered == [("/room/{room}/x", "GET", 200)]
