"""`GET /_matrix/app/v1/users/{userId}` and `/rooms/{roomAlias}`."""

import pytest

from tests.appservice.http.port import AGENT, ROOM, Port


@pytest.mark.parametrize("prefix", ["/_matrix/app/v1", ""])
async def test_existing_agents_and_rooms_are_provided(port: Port, prefix: str) -> None:
    """Before the response, for which the homeserver waits."""
    for path in ("/users/%40_agent_worker-1%3Atheir.server", "/rooms/%23agents-default%3Atheir.server"):
        answer = await port.ask("GET", prefix + path)
        assert (answer.status, answer.json) == (200, {})
    assert port.village.provided == [AGENT, ROOM]


@pytest.mark.parametrize(
    ("path", "is_asked_for"),
    [
        ("/users/@_agent_nobody:their.server", True),
        ("/rooms/%23agents-nothing:their.server", True),
        ("/users/@alice:their.server", False),
        ("/users/@_agent_worker-1:other.server", False),
        ("/users/%00", False),
        ("/users/%FF", False),
        ("/rooms/%23kitchen:their.server", False),
        ("/rooms/%21agents-default:their.server", False),
        (f"/rooms/%23agents-{'a' * 300}:their.server", False),
    ],
)
async def test_unknown_names_are_not_found(port: Port, path: str, is_asked_for: bool) -> None:
    """404 `M_NOT_FOUND`; names outside the namespaces cause no lookup."""
    refused = await port.ask("GET", f"/_matrix/app/v1{path}")
    assert (refused.status, refused.json["errcode"]) == (404, "M_NOT_FOUND")
    assert bool(port.village.provided) is is_asked_for
