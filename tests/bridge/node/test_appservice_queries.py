"""Answering the homeserver's queries."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from appservice.registration.namespaces import AgentRoom
from bridge.agents.address import AgentAddress
from bridge.node.appservice_backend import AppserviceQueries
from federation.matrix.errors import MatrixError

ROOM = AgentRoom("agents", "default")


@dataclass
class Node:
    """A `NodeCore` with one agent, one namespace whose room can be created, and one office."""

    may_make: asyncio.Event = field(default_factory=asyncio.Event)
    made: dict[str, str] = field(default_factory=dict)
    is_able: bool = True
    led: list[str] = field(default_factory=list)

    def is_agent(self, address: AgentAddress) -> bool:
        return address == AgentAddress("worker-1", "kitchen.local")

    def has_room(self, namespace: str) -> bool:
        return namespace == "default"

    async def provide_room(self, namespace: str) -> bool:
        await self.may_make.wait()
        if self.is_able:
            self.made[namespace] = "!a:their.server"
        return self.is_able

    def rooms(self) -> Mapping[str, str]:
        return self.made

    async def has_portal(self, localpart: str) -> bool:
        return localpart == "office-build-7"

    async def provide_portal(self, localpart: str) -> bool:
        self.led.append(localpart)
        return await self.has_portal(localpart)


@dataclass
class Signs:
    put: list[Mapping[str, str]] = field(default_factory=list)

    async def publish(self, rooms: Mapping[str, str]) -> None:
        self.put.append(rooms)


async def test_existing_agents_and_rooms() -> None:
    """Only rooms in which people see agents; invalid agent ids are unknown."""
    queries = AppserviceQueries(Node(), Signs().publish)
    assert queries.is_agent("worker-1", "kitchen.local")
    for agent_id, node_id in (("worker-2", "kitchen.local"), ("worker-1", "cellar.local"), ("", ""), ("a@b", "c")):
        assert not queries.is_agent(agent_id, node_id)
    assert await queries.is_room(ROOM)
    assert await queries.is_room(AgentRoom("office", "build-7"))
    for room in (AgentRoom("agents", "other"), AgentRoom("agent-federation", "default"), AgentRoom("office", "other")):
        assert not await queries.is_room(room)


async def test_query_creates_the_room() -> None:
    """The homeserver's own query during the creation is answered at once that there is none. Afterwards the
    room has bridge information."""
    node, signs = Node(), Signs()
    queries = AppserviceQueries(node, signs.publish)
    making = asyncio.create_task(queries.make_room(ROOM))
    await asyncio.sleep(0)
    with pytest.raises(MatrixError, match="being created"):
        await queries.make_room(ROOM)
    node.may_make.set()
    await making
    assert signs.put == [{"default": "!a:their.server"}]
    await queries.make_room(ROOM)


async def test_office_alias_is_ensured() -> None:
    """A query creates no office, and an office has no bridge information."""
    node, signs = Node(), Signs()
    await AppserviceQueries(node, signs.publish).make_room(AgentRoom("office", "build-7"))
    assert (node.led, node.made, signs.put) == (["office-build-7"], {}, [])


async def test_failed_creation() -> None:
    """It is reported and can be retried."""
    node, signs = Node(is_able=False), Signs()
    node.may_make.set()
    queries = AppserviceQueries(node, signs.publish)
    for _ in range(2):
        with pytest.raises(MatrixError, match="Failed to create"):
            await queries.make_room(ROOM)
    assert signs.put == []
