from aiohttp.test_utils import TestClient, TestServer

from bench._limits.http import BODY
from bench._limits.web_server import application


async def test_get_answers_a_small_object() -> None:
    """Like the version that peers ask for."""
    async with TestClient(TestServer(application())) as client:
        answer = await client.get("/version")
        assert answer.status == 200
        assert await answer.json() == {"server": {"name": "Palaver", "version": "0"}}


async def test_put_reads_and_parses_the_body() -> None:
    """A body that is not JSON is an error: otherwise nobody would have parsed it."""
    async with TestClient(TestServer(application())) as client:
        answer = await client.put("/send/1", data=BODY)
        assert (answer.status, await answer.json()) == (200, {})
