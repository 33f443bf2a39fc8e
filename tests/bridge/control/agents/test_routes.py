"""`palaver route`."""

from tests.federation.nodes import now_ms
from tests.support.agents import registered
from tests.support.operated import Operated


async def test_local_remote_and_unknown_routes(node: Operated) -> None:
    """Each with the reason."""
    await node.local_agents.register("worker")
    await node.table.update([registered("coder@a.test", now_ms()), registered("coder@b.test", now_ms())])
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


async def test_an_invalid_address_is_explained(node: Operated) -> None:
    """The command does not fail."""
    for text, words in (("a@b@c", "must not contain an @"), ("@here.test", "empty"), ("x" * 300, "at most")):
        answer = await node.ask("route", address=text)
        assert (answer["decision"], answer["code"]) == ("unknown", "INVALID_PAYLOAD")
        assert words in answer["why"]
