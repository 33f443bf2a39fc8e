"""Whose a token is."""

import pytest
from aiohttp import web

from appservice.homeserver.accounts import openid_token_owner, token_owner
from appservice.homeserver.api import HomeserverUnavailable
from federation.matrix.errors import MatrixError
from tests.appservice.homeservers import homeserver

ALICE = "@alice:their.server"


async def test_the_homeserver_says_whose_a_token_is() -> None:
    """It is shown the token, and not ours."""
    async with homeserver(lambda request: {"user_id": ALICE, "device_id": "D"}) as at:
        assert await token_owner(at.client, "hers") == ALICE
        (request,) = at.server.requests
        assert request.raw_path == "/_matrix/client/v3/account/whoami"
        assert request.headers["Authorization"] == "Bearer hers"


@pytest.mark.parametrize(
    "said",
    [
        (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown."}),
        (403, {"errcode": "M_FORBIDDEN", "error": "No."}),
        {"user_id": "@guest:their.server", "is_guest": True},
        {"user_id": "nobody"},
        {"user_id": 1},
        {},
    ],
)
async def test_a_token_may_be_nobodys(said: object) -> None:
    """One that is not known, that of a guest, and whatever is no user."""
    async with homeserver(lambda request: said) as at:
        assert await token_owner(at.client, "x") is None


async def test_a_homeserver_that_is_away_says_nothing_of_it() -> None:
    """Nor one in trouble, or one that has enough of other things: then nobody knows whose it is."""
    async with homeserver(lambda request: web.Response(status=502)) as at:
        with pytest.raises(HomeserverUnavailable):
            await token_owner(at.client, "x")
    async with homeserver(lambda request: (404, {"errcode": "M_UNRECOGNIZED", "error": "?"})) as at:
        with pytest.raises(MatrixError, match="M_UNRECOGNIZED"):
            await token_owner(at.client, "x")


async def test_an_openid_token_says_who_somebody_is() -> None:
    """And is shown where the specification has it."""
    async with homeserver(lambda request: {"sub": ALICE}) as at:
        assert await openid_token_owner(at.client, "o p") == ALICE
        (request,) = at.server.requests
        assert request.path == "/_matrix/federation/v1/openid/userinfo"
        assert request.query["access_token"] == "o p"
    async with homeserver(lambda request: (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "?"})) as at:
        assert await openid_token_owner(at.client, "x") is None
