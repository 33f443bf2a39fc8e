"""What mautrix's `HTTPAPI` sends and receives here. Interpreting the response is tested in `test_client`."""

import logging

import aiohttp
import pytest
from mautrix.api import Method, Path

from appservice.homeserver.api import MAX_BYTES, HomeserverApi, HomeserverUnavailable, reason
from tests.appservice.homeservers import homeserver


async def test_responses_are_returned_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    """Status and body; redirects are not followed, and nothing is logged."""
    caplog.set_level(logging.DEBUG, "mau.http")
    redirect = aiohttp.web.Response(status=302, headers={"Location": "/elsewhere"}, text="go")
    async with homeserver(lambda request: redirect) as at, aiohttp.ClientSession() as session:
        api = HomeserverApi(session, at.client.url)
        assert await api.request(Method.PUT, Path.v3.x, b"secret", {}, {"q": "a b&c"}) == (302, b"go")
        assert at.targets == ["PUT /_matrix/client/v3/x?q=a+b%26c"]
        assert at.server.bodies == [b"secret"]
    assert "secret" not in caplog.text
    assert caplog.records == []


async def test_responses_are_limited() -> None:
    """Also without a Content-Length."""

    def large(request: aiohttp.web.Request) -> aiohttp.web.Response:
        if request.path.endswith("told"):
            return aiohttp.web.Response(body=b"x" * (MAX_BYTES + 1))
        answer = aiohttp.web.Response(body=b"x" * (MAX_BYTES + 1))
        answer.enable_chunked_encoding()
        return answer

    async with homeserver(large) as at, aiohttp.ClientSession() as session:
        api = HomeserverApi(session, at.client.url)
        for path in (Path.v3.told, Path.v3.untold):
            with pytest.raises(HomeserverUnavailable, match="its response is too large"):
                await api.request(Method.GET, path)


def test_reason_is_one_short_line() -> None:
    """Whatever the library's message is."""
    assert reason(TimeoutError()) == "the request timed out"
    assert reason(aiohttp.ServerDisconnectedError()) == "it closed the connection"
    assert reason(ValueError("a\nb")) == "a"
    assert len(reason(ValueError("x" * 900))) == 200
    assert reason(ValueError()) == "ValueError"
    assert reason(ConnectionResetError()) == "it closed the connection"
