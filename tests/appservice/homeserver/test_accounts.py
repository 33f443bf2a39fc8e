"""Finding the owner of a token."""

import pytest
from aiohttp import web

from appservice.homeserver.accounts import openid_token_owner, token_owner
from appservice.homeserver.api import HomeserverUnavailable
from federation.matrix.errors import MatrixError
from tests.appservice.homeservers import homeserver

ALICE = "@alice:their.server"


async def test_token_owner() -> None:
    """The request carries the person's token, not the registration's."""
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
async def test_token_without_owner(said: object) -> None:
    """Unknown tokens, guest accounts and invalid user ids have no owner."""
    async with homeserver(lambda request: said) as at:
        assert await token_owner(at.client, "x") is None


async def test_unavailable_homeserver_raises() -> None:
    """An unavailable, failing or rate-limiting homeserver is not an answer about the token."""
    async with homeserver(lambda request: web.Response(status=502)) as at:
        with pytest.raises(HomeserverUnavailable):
            await token_owner(at.client, "x")
    async with homeserver(lambda request: (404, {"errcode": "M_UNRECOGNIZED", "error": "?"})) as at:
        with pytest.raises(MatrixError, match="M_UNRECOGNIZED"):
            await token_owner(at.client, "x")


async def test_openid_token_owner() -> None:
    """The token is sent in the query, as specified."""
    async with homeserver(lambda request: {"sub": ALICE}) as at:
        assert await openid_token_owner(at.client, "o p") == ALICE
        (request,) = at.server.requests
        assert request.path == "/_matrix/federation/v1/openid/userinfo"
        assert request.query["access_token"] == "o p"
    async with homeserver(lambda request: (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "?"})) as at:
        assert await openid_token_owner(at.client, "x") is None
