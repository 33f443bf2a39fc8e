"""Several processes of one node, of which one is the leader."""

from bridge.tasks.answer import Answer
from tests.bridge.connectors.cis.cis_nodes import CisNodes

GOOD = Answer(True, "done", 0)


async def test_another_process_becomes_the_leader(nodes: CisNodes) -> None:
    """When the leader ends. Before that, the other process delivers and answers tasks as well."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    first = kitchen
    await first.wait_leader()
    second = await nodes.open(nodes._make(kitchen.node))
    second.local_agents.automatic_answer = first.local_agents.automatic_answer = GOOD
    await second.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    for number in range(4):
        await living.ask("worker@b.test", str(number))
    for _ in range(4):
        assert (await living.answered()).answer == GOOD
    assert second.connector._leader is None
    await first.close()
    await second.wait_leader()
    await second.local_agents.register("late")
    await living.wait_online("late@b.test")
    await living.ask("late@b.test", "late")
    assert (await living.answered()).answer == GOOD


async def test_a_change_of_leader_repeats_no_announcement(nodes: CisNodes) -> None:
    """However often the leader changes."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await kitchen.local_agents.register("w1", "w2")
    for name in ("w1", "w2"):
        await living.wait_online(f"{name}@b.test")
    current = kitchen
    for _ in range(3):
        successor = await nodes.open(nodes._make(kitchen.node))
        await current.close()
        await successor.wait_leader()
        await successor.wait_joined("a.test")
        current = successor
    page = await kitchen.node.rooms.messages("!agent-broadcast:b.test", limit=100)
    kinds = [event.type for event in page.events if event.type.startswith("io.cis.agent.")]
    assert kinds == ["io.cis.agent.registered"] * 2
