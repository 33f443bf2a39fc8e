"""AgentDiscovery agents from rooms."""

from dataclasses import replace

from bridge.agents.updates import Unregistration
from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.service.discovery import AgentDiscovery
from bridge.peers.peer import Peer
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNodes, Eyes, peers_of
from tests.federation.nodes import now_ms
from tests.support.agents import address, routing_table

PEER = Peer("a.test")


async def test_what_the_rooms_say_is_learned_again(nodes: CisNodes) -> None:
    """All of it, or what is asked for; who has gone is gone; and nothing that others have put there."""
    living, kitchen = await nodes.begin("a.test", "b.test")
    await living.hands.come("w1", "w2", "w3")
    await living.hands.go("w2")
    for name in ("w1", "w3"):
        await kitchen.sees(f"{name}@a.test")
    await living.node.rooms.set_state(
        "!agent-broadcast:a.test",
        "@palaver:a.test",
        "io.cis.agent.registered",
        {"agent_id": "other", "node_id": "c.test", "runtime_type": "x", "capabilities": [], "timestamp": "x"},
        "other",
    )
    await kitchen.eyes.until_act(Verdict.INVALID, "io.cis.agent.registered")
    database = kitchen.node.database
    async with database.transaction() as connection:
        await connection.execute("DELETE FROM agents")
    async with routing_table(database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        learning = AgentDiscovery(kitchen.node.rooms, routes, settings, Eyes())
        await learning.discover(PEER, ["w1", "unheard-of"])
        assert [agent.agent_id for agent in routes.table.agents()] == ["w1"]
        await learning.discover(PEER)
        assert sorted(agent.agent_id for agent in routes.table.agents() if agent.is_online) == ["w1", "w3"]


async def test_a_sign_of_life_brings_back_who_was_lost(nodes: CisNodes) -> None:
    """But not who has gone by itself."""
    living, kitchen = await nodes.begin("a.test", "b.test")
    await living.hands.come("w1", "w2")
    for name in ("w1", "w2"):
        await kitchen.sees(f"{name}@a.test")
    await living.hands.go("w2")
    await kitchen.misses("w2@a.test")
    await kitchen.close()
    async with kitchen.node.database.transaction() as connection:
        await connection.execute(
            "UPDATE agents SET gone_at = 1, gone_reason = 'timeout', said_at = said_at + 5"
            " WHERE agent_id = 'w1'"
        )
    async with routing_table(kitchen.node.database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        learning = AgentDiscovery(kitchen.node.rooms, routes, settings, Eyes())
        await learning.discover(PEER)
        lost = routes.agent(address("w1@a.test"))
        assert lost is None or not lost.is_online
        await learning.discover(PEER, as_of=now_ms())
        back, gone = routes.agent(address("w1@a.test")), routes.agent(address("w2@a.test"))
        assert back is not None
        assert back.is_online
        assert gone is None or not gone.is_online


async def test_rooms_that_this_node_is_not_in_teach_nothing(nodes: CisNodes) -> None:
    """And are no error."""
    [node] = await nodes.start("b.test")
    async with routing_table(node.database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        await AgentDiscovery(node.rooms, routes, settings, Eyes()).discover(PEER)
        assert list(routes.table.agents()) == []


async def test_who_has_gone_before_the_sign_of_life_stays_gone(nodes: CisNodes) -> None:
    """That it has may reach us later than the sign of life does: it is newer than what brought it back."""
    living, kitchen = await nodes.begin("a.test", "b.test")
    await living.hands.come("w1")
    was_here = await kitchen.sees("w1@a.test")
    await kitchen.close()
    async with kitchen.node.database.transaction() as connection:
        await connection.execute("UPDATE agents SET gone_at = 1, gone_reason = 'timeout'")
    async with routing_table(kitchen.node.database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        learning = AgentDiscovery(kitchen.node.rooms, routes, settings, Eyes())
        await learning.discover(PEER, as_of=was_here.sent_at + 60_000)
        back = routes.agent(address("w1@a.test"))
        assert back is not None
        assert back.is_online
        await routes.update([Unregistration(back.address, "shutdown", was_here.sent_at + 30_000)])
        gone = routes.agent(back.address)
        assert gone is not None
        assert not gone.is_online
