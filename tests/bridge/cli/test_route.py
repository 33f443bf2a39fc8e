"""`palaver route` with a running node."""

import pytest

from bridge.clock import now_ms
from tests.bridge.cli.conftest import AgentsNode
from tests.support.agents import registered


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("cook", 0, ["Local", "cook@here.test is an agent of this node"]),
        ("coder@a.test", 0, ["Remote a.test at http://10.0.0.1:7676", "on another node"]),
        ("nobody@here.test", 1, ["Unknown", "AGENT_NOT_FOUND", "Check the address"]),
        ("a@b@c", 1, ["Unknown", "INVALID_PAYLOAD", "must not contain an @"]),
        ("x\x1b[31m", 1, ["Unknown", "x\\x1b[31m"]),
    ],
)
async def test_the_route_and_its_reason_are_shown(
    agents: AgentsNode, address: str, code: int, words: list[str]
) -> None:
    """Invalid addresses are explained too. The exit code is 1 if there is no route."""
    await agents.node.local_agents.register("cook")
    await agents.node.table.update([registered("coder@a.test", now_ms())])
    await agents.node.table.set_node("a.test", "http://10.0.0.1:7676", trusted=True)
    result = await agents.palaver("route", address)
    assert result.code == code
    for part in words:
        assert part in result.out
    assert "\x1b" not in result.out
    decision = (await agents.palaver("route", address, "--json")).json["decision"]
    assert decision == words[0].split()[0].lower()
