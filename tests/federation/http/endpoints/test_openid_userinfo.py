"""`GET /_matrix/federation/v1/openid/userinfo`."""

import pytest

from federation.http.endpoints import queries as openid_userinfo
from tests.federation.http.running import running

PATH = "/_matrix/federation/v1/openid/userinfo"


@pytest.mark.parametrize(
    ("query", "errcode"),
    [
        ("?access_token=abc", "M_UNKNOWN_TOKEN"),
        ("?access_token=%00", "M_UNKNOWN_TOKEN"),
        ("?access_token=", "M_MISSING_TOKEN"),
        ("", "M_MISSING_TOKEN"),
    ],
)
async def test_all_tokens_are_unknown(query: str, errcode: str) -> None:
    """401, because none is issued. The token is not repeated in the response."""
    async with running(routes=openid_userinfo.ROUTES) as node, await node.connect() as client:
        answer = await client.ask(PATH + query)
        assert (answer.status, answer.json["errcode"]) == (401, errcode)
        assert b"abc" not in answer.body
