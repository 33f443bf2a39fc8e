"""Several processes of one node, of which one is the leader."""

from bridge.tasks.answer import Answer
from tests.bridge.connectors.cis.cis_nodes import CisNodes

GOOD = Answer(True, "done", 0)


async def test_another_process_becomes_the_leader(nodes: CisNodes) -> None:
    """When the leader ends. Before that, the other process delivers and answers tasks as well."""
    living, kitchen = await nodes.begin("a.test", "b.test")
    first = kitchen
    await first.leads()
    second = await nodes.open(nodes._make(kitchen.node))
    second.hands.answers_by_itself = first.hands.answers_by_itself = GOOD
    await second.hands.come("worker")
    await living.sees("worker@b.test")
    for number in range(4):
        await living.ask("worker@b.test", str(number))
    for _ in range(4):
        assert (await living.answered()).answer == GOOD
    assert second.connector._leader is None
    await first.close()
    await second.leads()
    await second.hands.come("late")
    await living.sees("late@b.test")
    await living.ask("late@b.test", "late")
    assert (await living.answered()).answer == GOOD


async def test_a_change_of_leader_repeats_no_announcement(nodes: CisNodes) -> None:
    """However often the leader changes."""
    living, kitchen = await nodes.begin("a.test", "b.test")
    await kitchen.hands.come("w1", "w2")
    for name in ("w1", "w2"):
        await living.sees(f"{name}@b.test")
    current = kitchen
    for _ in range(3):
        successor = await nodes.open(nodes._make(kitchen.node))
        await current.close()
        await successor.leads()
        await successor.until_in_touch("a.test")
        current = successor
    page = await kitchen.node.rooms.messages("!agent-broadcast:b.test", limit=100)
    kinds = [event.type for event in page.events if event.type.startswith("io.cis.agent.")]
    assert kinds == ["io.cis.agent.registered"] * 2
