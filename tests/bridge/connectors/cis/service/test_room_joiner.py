"""Joining the rooms of peers."""

import asyncio
from dataclasses import replace

from tests.bridge.connectors.cis.cis_nodes import QUICK, TIMEOUT, CisNode, CisNodes, peers_of


async def joined(node: CisNode, *rooms: str) -> None:
    """Wait until the node has joined these rooms."""
    async with asyncio.timeout(TIMEOUT):
        while not set(rooms) <= set(await node.node.rooms.joined_rooms(node.settings.node_user)):
            await asyncio.sleep(0.02)


async def test_nodes_join_each_others_rooms(nodes: CisNodes) -> None:
    """Also if one of them starts later."""
    slow = replace(QUICK, retry_ms=600_000, longest_retry_ms=600_000)
    first, second = await nodes.start_with(
        replace(slow, node_id="a.test", peers=peers_of("b.test")),
        replace(slow, node_id="b.test", peers=peers_of("a.test")),
    )
    for node, other in ((first, "b.test"), (second, "a.test")):
        await joined(node, f"!agent-broadcast:{other}", f"!agent-federation-default:{other}")
        await node.wait_joined(other)


async def test_invite_only_rooms(nodes: CisNodes) -> None:
    """Each node invites the others and its own agents."""
    first, second = await nodes.start_peers("a.test", "b.test", join_rule="invite")
    await joined(first, "!agent-broadcast:b.test", "!agent-federation-default:b.test")
    await joined(second, "!agent-broadcast:a.test", "!agent-federation-default:a.test")
    await second.local_agents.register("worker")
    await first.wait_online("worker@b.test")
    await first.ask("worker@b.test")
    assert str((await second.given()).request.from_address) == "coordinator@a.test"


async def test_a_room_that_was_lost_is_joined_again(nodes: CisNodes) -> None:
    """And the changes made meanwhile are loaded."""
    first, second = await nodes.start_peers("a.test", "b.test")
    room = "!agent-broadcast:b.test"
    await first.wait_joined("b.test")
    await second.node.rooms.kick(room, "@palaver:b.test", "@palaver:a.test")
    await second.local_agents.register("worker")
    await first.wait_online("worker@b.test")
    await joined(first, room)


async def test_an_unreachable_peer_is_retried(nodes: CisNodes) -> None:
    """Until it answers, without a reported problem."""
    first, second = await nodes.start_peers("a.test", "b.test", retry_ms=20, longest_retry_ms=50)
    await first.wait_joined("b.test")
    second.node.is_down = True
    for room in ("!agent-broadcast:b.test", "!agent-federation-default:b.test"):
        await first.node.rooms.leave(room, "@palaver:a.test")
    lead = await first.wait_leader()
    async with asyncio.timeout(TIMEOUT):
        while lead.joiner.has_joined_all("b.test"):
            await asyncio.sleep(0.02)
    await second.local_agents.register("worker")
    second.node.is_down = False
    await first.wait_online("worker@b.test")
    await first.wait_joined("b.test")
    assert first.observer.problems == []
