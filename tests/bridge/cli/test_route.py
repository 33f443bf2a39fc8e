"""`palaver route`, from the words to the node and back."""

import pytest

from bridge.clock import now_ms
from tests.bridge.cli.conftest import Agents
from tests.support.agents import registered


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("cook", 0, ["Local", "cook@here.test is an agent of this node"]),
        ("coder@a.test", 0, ["Remote a.test at http://10.0.0.1:7676", "on another node"]),
        ("nobody@here.test", 1, ["Unknown", "AGENT_NOT_FOUND", "Check the address"]),
        ("a@b@c", 1, ["Unknown", "INVALID_PAYLOAD", "holds no @"]),
        ("x\x1b[31m", 1, ["Unknown", "x\\x1b[31m"]),
    ],
)
async def test_the_decision_and_why(agents: Agents, address: str, code: int, words: list[str]) -> None:
    """Also for what is no address; a program sees by the exit code whether there is a route."""
    await agents.node.hands.come("cook")
    await agents.node.table.take([registered("coder@a.test", now_ms())])
    await agents.node.table.set_node("a.test", "http://10.0.0.1:7676", trusted=True)
    said = await agents.palaver("route", address)
    assert said.code == code
    for part in words:
        assert part in said.out
    assert "\x1b" not in said.out
    decision = (await agents.palaver("route", address, "--json")).json["decision"]
    assert decision == words[0].split()[0].lower()
