"""How members of offices are reached by who is in none."""

import asyncio

from bridge.connectors.offices.calls.tasks import TASK
from bridge.connectors.offices.rooms.office_room import alias, member_address
from bridge.people.permissions import Level, Rights
from federation.matrix.message_content import text
from tests.bridge.connectors.offices.calls.staffed import staffed
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

ALICE = "@alice:there.test"


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
        await house.known("hands", lambda agent: not agent.is_online)
        assert reaching.calls.computers("b") == ["hands"]


async def test_after_the_end_nobody_is_there(node: Node) -> None:
    """What another process reads is what this one has said last."""
    async with staffed(node) as house:
        await house.running.computer(token=house.token)
        await house.known("hands")
    async with staffed(node) as house:
        agent = house.routes.agent(member_address("a", "hands", node.name))
        assert agent is not None
        assert not agent.is_online


async def test_people_give_work_in_the_room_of_an_office(
    postgres_server: Server, migrated_template: str
) -> None:
    """To an Agent that reads tasks; what calls a tool there is nothing else, however few are in the room."""
    async with nodes(postgres_server, migrated_template) as both:
        here, there = await both.start("here.test", "there.test")
        async with staffed(here, rights=Rights({ALICE: Level.WORK}), people=True) as house:
            agent = await house.running.agent(token=house.token, declares={"tasks": True})
            agent.answers[TASK] = lambda said: {"success": True, "output": f"did {said['prompt']}"}
            await house.known("boss")
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

            said = text("@a/boss: peel", mentions=["@a/boss:here.test"])
            await there.rooms.send(room_id, ALICE, "m.room.message", said)
            await bodies("did peel")
            await agent.close()
            async with asyncio.timeout(TIMEOUT):
                while len(await there.rooms.members(room_id)) > 2:
                    await asyncio.sleep(0.02)
            await there.rooms.send(room_id, ALICE, "m.room.message", text("!call hands add a=1"))
            await bodies("Nobody is in the office a.")
            await there.rooms.send(room_id, ALICE, "m.room.message", text("help"))
            assert not any("There is no command" in body for body in await bodies("What you can ask"))
