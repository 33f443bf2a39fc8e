"""One question to the homeserver."""

import aiohttp
from aiohttp import web

from appservice.homeserver.accounts import MOST_BYTES, ask
from appservice.registration.check import VERSIONS, Answer, Heard, NoAnswer
from tests.appservice.registration.test_run_check import Played, served
from tests.support.ports import lasting_port


async def answered(said: object) -> Heard:
    """By a homeserver that says this."""
    async with served(Played(versions=said)) as url, aiohttp.ClientSession() as session:
        return await ask(session, "GET", url + VERSIONS, "token")


async def test_what_is_said_is_what_comes() -> None:
    """A refusal is an answer too; what is no JSON object has an empty body."""
    assert await answered({"versions": []}) == Answer(200, {"versions": []})
    refusal = web.json_response({"errcode": "M_FORBIDDEN"}, status=403)
    heard = await answered(refusal)
    assert heard == Answer(403, {"errcode": "M_FORBIDDEN"})
    assert await answered(web.Response(text="<html>", status=502)) == Answer(502)
    assert await answered(web.json_response([])) == Answer(200)


async def test_the_token_goes_nowhere_else() -> None:
    """A redirect is an answer, and is not followed."""
    assert await answered(web.Response(status=302, headers={"Location": VERSIONS})) == Answer(302)


async def test_no_answer_says_why() -> None:
    """Too much, or nobody there."""
    assert await answered(web.Response(body=b"x" * (MOST_BYTES + 1))) == NoAnswer("it says far too much")
    async with aiohttp.ClientSession() as session:
        heard = await ask(session, "GET", f"http://127.0.0.1:{lasting_port()}{VERSIONS}")
    assert isinstance(heard, NoAnswer)
    assert heard.reason
