"""`GET /_matrix/app/v1/thirdparty/…`."""

import pytest

from appservice.http.endpoints import protocol
from tests.appservice.http.port import Port
from tests.appservice.intakes import OURS

PREFIXES = ["/_matrix/app/v1", "/_matrix/app/unstable"]
USER = {
    "userid": "@_agent_worker-1:their.server",
    "protocol": "agents",
    "fields": {"agent": "worker-1", "node": "kitchen.local"},
}
LOCATION = {"alias": "#agents-default:their.server", "protocol": "agents", "fields": {"namespace": "default"}}


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_lookups_by_either_name(port: Port, prefix: str) -> None:
    """By protocol fields and by Matrix ids; a lookup creates nothing."""
    assert (await port.ask("GET", f"{prefix}/thirdparty/protocol/agents")).json == protocol(OURS)
    for path in (
        "user/agents?agent=worker-1",
        "user/agents?agent=worker-1&node=kitchen.local",
        "user?userid=%40_agent_worker-1%3Atheir.server",
    ):
        assert (await port.ask("GET", f"{prefix}/thirdparty/{path}")).json == [USER]
    for path in ("location/agents?namespace=default", "location?alias=%23agents-default%3Atheir.server"):
        assert (await port.ask("GET", f"{prefix}/thirdparty/{path}")).json == [LOCATION]
    assert port.village.provided == []


@pytest.mark.parametrize(
    "path",
    [
        "protocol/irc",
        "user/irc?agent=worker-1",
        "user/agents",
        "user/agents?agent=nobody",
        "user/agents?agent=a&node=%00",
        "user/agents?agent=%FF",
        "user",
        "user?userid=@alice:their.server",
        "location/agents",
        "location/agents?namespace=nothing",
        "location?alias=%23agent-broadcast:their.server",
        "location?alias=%00",
    ],
)
async def test_unknown_names_are_not_found(port: Port, path: str) -> None:
    """404 `M_NOT_FOUND`."""
    refused = await port.ask("GET", f"/_matrix/app/v1/thirdparty/{path}")
    assert (refused.status, refused.json["errcode"]) == (404, "M_NOT_FOUND")
