"""Queries for agents and rooms."""

from appservice.http.services import AgentQueries
from appservice.registration.namespaces import AgentRoom
from storage.database import Database
from tests.appservice.intakes import OURS
from tests.appservice.people.test_ghosts import GHOST, ghosts_on
from tests.appservice.registration.test_run_check import FakeHomeserver, served

AGENT = ("worker-1", "kitchen.local")
ROOM = AgentRoom("agents", "default")


async def test_queried_agents_and_rooms_are_created(database: Database) -> None:
    """Only those that the node has."""
    fake = FakeHomeserver()
    made: list[AgentRoom] = []

    async def is_room(room: AgentRoom) -> bool:
        return room == ROOM

    async def make_room(room: AgentRoom) -> None:
        made.append(room)

    async with served(fake) as url, ghosts_on(database, url) as (ghosts, _):
        given = AgentQueries(
            OURS,
            ghosts,
            is_agent=lambda agent_id, node_id: (agent_id, node_id) == AGENT,
            is_room=is_room,
            make_room=make_room,
        )
        assert await given.knows_agent(*AGENT)
        assert await given.knows_room(ROOM)
        assert not await ghosts.is_registered(GHOST)
        assert made == []
        assert await given.provide_agent(*AGENT)
        assert await ghosts.is_registered(GHOST)
        assert await given.provide_room(ROOM)
        assert made == [ROOM]
        for agent in (("worker-2", "kitchen.local"), ("w" * 300, "kitchen.local")):
            assert not await given.provide_agent(*agent)
            assert not await given.knows_agent(*agent)
        other = AgentRoom("agents", "other")
        assert not await given.provide_room(other)
        assert not await given.knows_room(other)
    assert len(fake.shown) == 1
    assert made == [ROOM]
