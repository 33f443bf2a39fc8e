"""`palaver route`."""

from tests.federation.nodes import now_ms
from tests.support.agents import registered
from tests.support.operated import Operated


async def test_here_elsewhere_or_nowhere(node: Operated) -> None:
    """The decision, and a sentence that says why."""
    await node.hands.come("worker")
    await node.table.take([registered("coder@a.test", now_ms()), registered("coder@b.test", now_ms())])
    await node.table.set_node("a.test", "http://10.0.0.1:7676", trusted=True)
    here = await node.ask("route", address="worker")
    assert (here["decision"], here["address"], here["node_id"]) == ("local", "worker@here.test", "here.test")
    assert "is an agent of this node" in here["why"]
    there = await node.ask("route", address="coder@a.test")
    assert (there["decision"], there["node_id"], there["url"]) == ("remote", "a.test", "http://10.0.0.1:7676")
    nowhere = await node.ask("route", address="coder")
    assert (nowhere["decision"], nowhere["code"]) == ("unknown", "AGENT_NOT_FOUND")
    assert nowhere["candidates"] == ["coder@a.test", "coder@b.test"]
    assert nowhere["advice"]


async def test_the_mistake_in_an_address_is_named(node: Operated) -> None:
    """It is no failure of the command."""
    for text, words in (("a@b@c", "no @"), ("@here.test", "empty"), ("x" * 300, "at most")):
        said = await node.ask("route", address=text)
        assert (said["decision"], said["code"]) == ("unknown", "INVALID_PAYLOAD")
        assert words in said["why"]
