"""What each endpoint begins with: whether the homeserver asks."""

import pytest

from appservice.http.services import SERVICES
from tests.appservice.http.port import TOKEN, Port

ASKED = [
    ("PUT", "/_matrix/app/v1/transactions/1"),
    ("PUT", "/transactions/1"),
    ("POST", "/_matrix/app/v1/ping"),
    ("GET", "/_matrix/app/v1/users/@_agent_worker-1:their.server"),
    ("GET", "/users/@_agent_worker-1:their.server"),
    ("GET", "/_matrix/app/v1/rooms/%23agents-default:their.server"),
    ("GET", "/rooms/%23agents-default:their.server"),
    ("GET", "/_matrix/app/v1/thirdparty/protocol/agents"),
    ("GET", "/_matrix/app/unstable/thirdparty/protocol/agents"),
]


@pytest.mark.parametrize(("method", "path"), ASKED)
async def test_only_the_homeserver_is_answered(port: Port, method: str, path: str) -> None:
    """By the token in the header, in the query, or in both; a wrong one anywhere is refused, and nothing
    happens."""
    body = {"events": []} if method == "PUT" else None
    right, wrong = f"?access_token={TOKEN}", "?access_token=x"
    for token, query in ((TOKEN, ""), (None, right), (TOKEN, right)):
        assert (await port.ask(method, path, body, token=token, query=query)).status == 200
    before = list(port.village.provided), list(port.pings)
    for token, query in (("x", ""), (None, wrong), (TOKEN, wrong), ("x", right)):
        refused = await port.ask(method, path, body, token=token, query=query)
        assert (refused.status, refused.json["errcode"]) == (403, "M_FORBIDDEN")
    unknown = await port.ask(method, path, body, token=None)
    assert (unknown.status, unknown.json["errcode"]) == (401, "M_UNAUTHORIZED")
    assert (port.village.provided, port.pings) == before


async def test_the_token_is_not_shown(port: Port) -> None:
    """Whatever is logged of what the endpoints are given."""
    services = port.running.listener._app[SERVICES]
    assert services.hs_token == TOKEN
    assert TOKEN not in repr(services)
