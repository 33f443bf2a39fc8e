"""Single requests outside the client."""

import aiohttp
from aiohttp import web

from appservice.homeserver.accounts import MAX_BYTES, ask
from appservice.registration.check import VERSIONS, NoResponse, RequestResult, Response
from tests.appservice.registration.test_run_check import FakeHomeserver, served
from tests.support.ports import lasting_port


async def answered(said: object) -> RequestResult:
    """The result if the homeserver sends this response."""
    async with served(FakeHomeserver(versions=said)) as url, aiohttp.ClientSession() as session:
        return await ask(session, "GET", url + VERSIONS, "token")


async def test_responses_are_returned() -> None:
    """A refusal is a response too; a body that is not a JSON object becomes empty."""
    assert await answered({"versions": []}) == Response(200, {"versions": []})
    refusal = web.json_response({"errcode": "M_FORBIDDEN"}, status=403)
    heard = await answered(refusal)
    assert heard == Response(403, {"errcode": "M_FORBIDDEN"})
    assert await answered(web.Response(text="<html>", status=502)) == Response(502)
    assert await answered(web.json_response([])) == Response(200)


async def test_redirects_are_not_followed() -> None:
    """The token stays with this server."""
    assert await answered(web.Response(status=302, headers={"Location": VERSIONS})) == Response(302)


async def test_no_response_has_a_reason() -> None:
    """A response that is too large, or a refused connection."""
    assert await answered(web.Response(body=b"x" * (MAX_BYTES + 1))) == NoResponse("its response is too large")
    async with aiohttp.ClientSession() as session:
        heard = await ask(session, "GET", f"http://127.0.0.1:{lasting_port()}{VERSIONS}")
    assert isinstance(heard, NoResponse)
    assert heard.reason
