"""The authentication of every endpoint."""

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
async def test_hs_token_is_required(port: Port, method: str, path: str) -> None:
    """In the header, the query, or both; one wrong token is refused without any effect."""
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


async def test_token_is_not_in_the_repr(port: Port) -> None:
    """Logging the services reveals no token."""
    services = port.running.listener._app[SERVICES]
    assert services.hs_token == TOKEN
    assert TOKEN not in repr(services)
