"""Announcements of local agents to other nodes."""

import asyncio

from bridge.agents.agent import AgentStatus
from bridge.agents.updates import StatusUpdate
from tests.bridge.connectors.cis.cis_nodes import TIMEOUT, CisNode, CisNodes, ScriptedAgents
from tests.federation.nodes import now_ms
from tests.support.agents import address, routing_table

BROADCAST = "!agent-broadcast:a.test"


async def entries(node: CisNode, room_id: str = BROADCAST) -> dict[tuple[str, str | None], str]:
    """Return the registrations in a room's state, with their runtimes or reasons."""
    found = {}
    for kind in ("registered", "unregistered"):
        for event in await node.node.rooms.state(room_id, f"io.cis.agent.{kind}"):
            found[kind, event.state_key] = event.content.get("runtime_type") or event.content["reason"]
    return found


async def until(node: CisNode, expected: dict[tuple[str, str | None], str], room_id: str = BROADCAST) -> None:
    async with asyncio.timeout(TIMEOUT):
        while await entries(node, room_id) != expected:
            await asyncio.sleep(0.02)


async def timeline(node: CisNode, room_id: str = BROADCAST) -> list[str]:
    page = await node.node.rooms.messages(room_id, backwards=False, limit=500)
    kinds = [event.type.removeprefix("io.cis.agent.") for event in page.events]
    return [kind for kind in kinds if kind in ("registered", "unregistered", "status_update")]


async def test_registrations_are_room_state(nodes: CisNodes) -> None:
    """Each agent has one entry, sent once by the owner of the room."""
    [node] = await nodes.start_peers("a.test")
    await node.local_agents.register("w1", "w2", runtime="kimi")
    await until(node, {("registered", "w1"): "kimi", ("registered", "w2"): "kimi"})
    await node.local_agents.register("w1", runtime="kimi")
    await node.local_agents.register("w2", runtime="aider")
    await until(node, {("registered", "w1"): "kimi", ("registered", "w2"): "aider"})
    await node.local_agents.unregister("w1", "maintenance")
    await until(
        node, {("registered", "w1"): "kimi", ("registered", "w2"): "aider", ("unregistered", "w1"): "maintenance"}
    )
    assert await timeline(node) == ["registered", "registered", "registered", "unregistered"]
    events = await node.node.rooms.state(BROADCAST, "io.cis.agent.registered")
    assert {event.sender for event in events} == {"@palaver:a.test"}


async def test_missing_announcements_are_sent_after_a_restart(nodes: CisNodes) -> None:
    """Registrations and unregistrations; nothing is repeated."""
    [node] = await nodes.start_peers("a.test")
    await node.local_agents.register("stays", "goes")
    await until(node, {("registered", "stays"): "claude", ("registered", "goes"): "claude"})
    await node.close()
    async with routing_table(node.node.database, "a.test", now_ms=now_ms) as routes:
        scripted = ScriptedAgents(routes, node.core.statuses)
        await scripted.register("came")
        await scripted.unregister("goes")
    node = await nodes.reopen(node)
    await until(
        node,
        {
            ("registered", "stays"): "claude",
            ("registered", "goes"): "claude",
            ("registered", "came"): "claude",
            ("unregistered", "goes"): "shutdown",
        },
    )
    assert sorted(await timeline(node)) == ["registered", "registered", "registered", "unregistered"]


async def test_frequent_status_changes_are_throttled(nodes: CisNodes) -> None:
    """The first is sent at once and the last is always sent, by the agent itself."""
    [node] = await nodes.start_peers("a.test", status_pause_ms=300)
    await node.local_agents.register("w")
    await until(node, {("registered", "w"): "claude"})
    agent = address("w@a.test")
    for number in range(30):
        status = AgentStatus.BUSY if number % 2 else AgentStatus.IDLE
        await node.routes.update([StatusUpdate(agent, status, f"t{number}" if number % 2 else None, now_ms())])
    async with asyncio.timeout(TIMEOUT):
        while True:
            page = await node.node.rooms.messages(BROADCAST, limit=100)
            said = [event for event in page.events if event.type == "io.cis.agent.status_update"]
            if said and said[0].content["current_task"] == "t29":
                break
            await asyncio.sleep(0.02)
    assert 1 < len(said) < 12
    assert {event.sender for event in said} == {"@w:a.test"}


async def test_other_homeservers_see_presence(nodes: CisNodes) -> None:
    """Because they do not know agents."""
    [node] = await nodes.start_peers("a.test")
    await node.local_agents.register("w")
    await until(node, {("registered", "w"): "claude"})
    seen = node.node.rooms.presence("@w:a.test")
    assert seen is not None
    assert seen.presence == "online"
    await node.local_agents.unregister("w")
    async with asyncio.timeout(TIMEOUT):
        while (seen := node.node.rooms.presence("@w:a.test")) is None or seen.presence != "offline":
            await asyncio.sleep(0.02)


async def test_a_lost_agent_is_announced_again(nodes: CisNodes) -> None:
    """ "answers with a fresh `registered` if it lives": newer than what the peer knows, and once a minute at
    most."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await living.local_agents.register("w")
    await kitchen.wait_online("w@a.test")
    await living.wait_joined("b.test")
    await kitchen.wait_joined("a.test")
    gone = kitchen.table.agent(address("w@a.test"))
    assert gone is not None
    for later in range(2):
        lost = gone._replace(gone_at=now_ms() + later, gone_reason="timeout", last_seen=1)
        await kitchen.connector.announce_lost([lost])
    await living.observer.until(
        lambda observer: len([act for act in observer.records if act.type == "io.cis.agent.unregistered"]) == 2
    )
    async with asyncio.timeout(TIMEOUT):
        while await timeline(living) != ["registered", "registered"]:
            await asyncio.sleep(0.02)
    [entry] = await living.node.rooms.state(BROADCAST, "io.cis.agent.registered")
    assert entry.state_key == "w"


async def test_an_agent_of_a_namespace_is_not_broadcast(nodes: CisNodes) -> None:
    """It is announced in its namespace's room; when it moves, it is unregistered there."""
    alpha = "!agent-federation-alpha:a.test"
    [node] = await nodes.start_peers("a.test", namespaces=("default", "alpha"))
    await node.local_agents.register("w", namespaces=("alpha",))
    await until(node, {("registered", "w"): "claude"}, alpha)
    assert await entries(node) == {}
    await node.local_agents.register("w", namespaces=("default",), capabilities=("review",))
    await until(node, {("registered", "w"): "claude"})
    await until(node, {("registered", "w"): "claude", ("unregistered", "w"): "moved"}, alpha)
