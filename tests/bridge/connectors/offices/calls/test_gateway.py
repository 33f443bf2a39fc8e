"""Access to members of offices from outside."""

import asyncio

from bridge.connectors.offices.calls.tasks import TASK
from bridge.connectors.offices.rooms.office_room import alias, member_address
from bridge.people.permissions import Level, Rights
from federation.matrix.message_content import text
from tests.bridge.connectors.offices.calls.core_setup import core_with_offices
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

ALICE = "@alice:there.test"


async def test_members_are_agents_while_they_are_connected(node: Node) -> None:
    """In another office a member has another address."""
    async with core_with_offices(node) as setup:
        gateway = setup.connector.gateway
        boss, hands = (member_address("a", name, node.name) for name in ("boss", "hands"))
        assert setup.routes.agent(hands) is None
        await setup.running.agent(token=setup.token, declares={"tasks": True})
        computer = await setup.running.computer(token=setup.token)
        for name in ("boss", "hands"):
            agent = await setup.known(name)
            assert (agent.runtime, agent.status) == ("a2c-smcp", "idle")
        assert "is an agent of this node" in setup.routes.explain("a/boss")
        assert (gateway.reads_tasks(boss), gateway.reads_tasks(hands)) == (True, False)
        await computer.join("computer", "hands", "b")
        await setup.known("hands", lambda agent: not agent.is_online)
        assert gateway.calls.computers("b") == ["hands"]


async def test_no_member_is_an_agent_after_the_end(node: Node) -> None:
    """Another process reads the state that this one has stored."""
    async with core_with_offices(node) as setup:
        await setup.running.computer(token=setup.token)
        await setup.known("hands")
    async with core_with_offices(node) as setup:
        agent = setup.routes.agent(member_address("a", "hands", node.name))
        assert agent is not None
        assert not agent.is_online


async def test_people_can_give_tasks_in_the_room_of_an_office(postgres_server: Server, migrated_template: str) -> None:
    """To an Agent that accepts tasks. A `!call` message is not handled as anything else, however few users
    are in the room."""
    async with nodes(postgres_server, migrated_template) as both:
        here, there = await both.start("here.test", "there.test")
        async with core_with_offices(here, rights=Rights({ALICE: Level.WORK}), people=True) as setup:
            agent = await setup.running.agent(token=setup.token, declares={"tasks": True})
            agent.answers[TASK] = lambda payload: {"success": True, "output": f"did {payload['prompt']}"}
            await setup.known("boss")
            async with asyncio.timeout(TIMEOUT):
                while await here.rooms.resolve_alias(alias("a", here.name)) is None:
                    await asyncio.sleep(0.01)
            await there.rooms.ensure_user(ALICE)
            room_id = await there.rooms.join(alias("a", here.name), ALICE)

            async def bodies(part: str) -> list[str]:
                async with asyncio.timeout(TIMEOUT):
                    while True:
                        events = (await there.rooms.messages(room_id, limit=200)).events
                        found = [str(event.content.get("body")) for event in events]
                        if any(part in body for body in found):
                            return found
                        await asyncio.sleep(0.02)

            content = text("@a/boss: peel", mentions=["@a/boss:here.test"])
            await there.rooms.send(room_id, ALICE, "m.room.message", content)
            await bodies("did peel")
            await agent.close()
            async with asyncio.timeout(TIMEOUT):
                while len(await there.rooms.members(room_id)) > 2:
                    await asyncio.sleep(0.02)
            await there.rooms.send(room_id, ALICE, "m.room.message", text("!call hands add a=1"))
            await bodies("The office a has no members.")
            await there.rooms.send(room_id, ALICE, "m.room.message", text("help"))
            assert not any("There is no command" in body for body in await bodies("Commands:"))
