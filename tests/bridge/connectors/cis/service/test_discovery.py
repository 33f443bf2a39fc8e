"""Loading agents from the state of rooms."""

from dataclasses import replace

from bridge.agents.updates import Unregistration
from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.service.discovery import AgentDiscovery
from bridge.peers.peer import Peer
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNodes, RecordingObserver, peers_of
from tests.federation.nodes import now_ms
from tests.support.agents import address, routing_table

PEER = Peer("a.test")


async def test_agents_are_loaded_from_the_rooms(nodes: CisNodes) -> None:
    """All agents, or those asked for, online or offline; state set by other users is ignored."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await living.local_agents.register("w1", "w2", "w3")
    await living.local_agents.unregister("w2")
    for name in ("w1", "w3"):
        await kitchen.wait_online(f"{name}@a.test")
    await living.node.rooms.set_state(
        "!agent-broadcast:a.test",
        "@palaver:a.test",
        "io.cis.agent.registered",
        {"agent_id": "other", "node_id": "c.test", "runtime_type": "x", "capabilities": [], "timestamp": "x"},
        "other",
    )
    await kitchen.observer.until_recorded(Verdict.INVALID, "io.cis.agent.registered")
    database = kitchen.node.database
    async with database.transaction() as connection:
        await connection.execute("DELETE FROM agents")
    async with routing_table(database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        discovery = AgentDiscovery(kitchen.node.rooms, routes, settings, RecordingObserver())
        await discovery.discover(PEER, ["w1", "unheard-of"])
        assert [agent.agent_id for agent in routes.table.agents()] == ["w1"]
        await discovery.discover(PEER)
        assert sorted(agent.agent_id for agent in routes.table.agents() if agent.is_online) == ["w1", "w3"]


async def test_a_returned_node_brings_back_lost_agents(nodes: CisNodes) -> None:
    """But not agents that were unregistered."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await living.local_agents.register("w1", "w2")
    for name in ("w1", "w2"):
        await kitchen.wait_online(f"{name}@a.test")
    await living.local_agents.unregister("w2")
    await kitchen.wait_offline("w2@a.test")
    await kitchen.close()
    async with kitchen.node.database.transaction() as connection:
        await connection.execute(
            "UPDATE agents SET gone_at = 1, gone_reason = 'timeout', said_at = said_at + 5 WHERE agent_id = 'w1'"
        )
    async with routing_table(kitchen.node.database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        discovery = AgentDiscovery(kitchen.node.rooms, routes, settings, RecordingObserver())
        await discovery.discover(PEER)
        lost = routes.agent(address("w1@a.test"))
        assert lost is None or not lost.is_online
        await discovery.discover(PEER, as_of=now_ms())
        back, gone = routes.agent(address("w1@a.test")), routes.agent(address("w2@a.test"))
        assert back is not None
        assert back.is_online
        assert gone is None or not gone.is_online


async def test_rooms_that_were_not_joined_are_skipped(nodes: CisNodes) -> None:
    """Without an error."""
    [node] = await nodes.start("b.test")
    async with routing_table(node.database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        await AgentDiscovery(node.rooms, routes, settings, RecordingObserver()).discover(PEER)
        assert list(routes.table.agents()) == []


async def test_a_late_unregistration_is_newer_than_the_return(nodes: CisNodes) -> None:
    """It may arrive after the heartbeat that brought the agent back."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await living.local_agents.register("w1")
    was_here = await kitchen.wait_online("w1@a.test")
    await kitchen.close()
    async with kitchen.node.database.transaction() as connection:
        await connection.execute("UPDATE agents SET gone_at = 1, gone_reason = 'timeout'")
    async with routing_table(kitchen.node.database, "b.test", now_ms=now_ms) as routes:
        settings = replace(QUICK, node_id="b.test", peers=peers_of("a.test"))
        discovery = AgentDiscovery(kitchen.node.rooms, routes, settings, RecordingObserver())
        await discovery.discover(PEER, as_of=was_here.sent_at + 60_000)
        back = routes.agent(address("w1@a.test"))
        assert back is not None
        assert back.is_online
        await routes.update([Unregistration(back.address, "shutdown", was_here.sent_at + 30_000)])
        gone = routes.agent(back.address)
        assert gone is not None
        assert not gone.is_online
