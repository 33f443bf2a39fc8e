"""How members of offices are reached by who is in none."""

from bridge.connectors.offices.office_room import member_address
from tests.bridge.connectors.offices.service.staffed import staffed
from tests.federation.service.nodes import Node


async def test_members_are_agents_while_they_are_there(node: Node) -> None:
    """And have no address before, nor afterwards; a move to another office is another address."""
    async with staffed(node) as house:
        reaching = house.connector.reaching
        boss, hands = (member_address("a", name, node.name) for name in ("boss", "hands"))
        assert house.routes.agent(hands) is None
        await house.running.agent(token=house.token, declares={"tasks": True})
        computer = await house.running.computer(token=house.token)
        for name in ("boss", "hands"):
            agent = await house.known(name)
            assert (agent.runtime, agent.status) == ("a2c-smcp", "idle")
        assert "is an agent of this node" in house.routes.explain("a/boss")
        assert (reaching.reads_tasks(boss), reaching.reads_tasks(hands)) == (True, False)
        await computer.join("computer", "hands", "b")
        await house.known("hands", lambda agent: not agent.is_here)
        assert reaching.calls.computers("b") == ["hands"]


async def test_after_the_end_nobody_is_there(node: Node) -> None:
    """What another process reads is what this one has said last."""
    async with staffed(node) as house:
        await house.running.computer(token=house.token)
        await house.known("hands")
    async with staffed(node) as house:
        agent = house.routes.agent(member_address("a", "hands", node.name))
        assert agent is not None
        assert not agent.is_here
