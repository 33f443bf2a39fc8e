"""A running node, and an office that is used by one test only."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.connectors.offices.clients import Client, Clients
from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.support.postgres import Server
from tests.support.smcp import Peers
from tests.support.smcp.expectations import Expectations

OFFICES = """
[offices]
enabled = true
"""
RESULT = {"meta": None, "content": [{"type": "text", "text": "3"}], "structuredContent": None, "isError": False}


@dataclass
class Hosted:
    """A running node, and bare clients in its offices."""

    node: AgentNode
    token: str

    def clients(self, stack: AsyncExitStack) -> Clients:
        return Clients(self.node.url("", "http"), stack)

    def expectations(self, office: str, scheme: str = "http") -> Expectations:
        url = self.node.url("", scheme)
        return Expectations(url=url, token=self.token, office=office, agent_id="planner-7")


@pytest.fixture(scope="module")
async def both(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[list[Hosted]]:
    """A node with the default settings, and one that requires a protocol version."""
    fields: list[dict[str, Any]] = [
        {"name": "kitchen.local", "more": OFFICES},
        {"name": "cellar.local", "more": f"{OFFICES}accept_unversioned = false\n"},
    ]
    async with agent_nodes(palaver, postgres_server, migrated_template, *fields) as nodes:
        tokens = await asyncio.gather(*map(token_of, nodes))
        yield [Hosted(node, token) for node, token in zip(nodes, tokens, strict=True)]


async def token_of(node: AgentNode) -> str:
    code, said = await node.palaver("offices", "token", "create", "everybody", "--json")
    assert code == 0, said
    return str(json.loads(said)["token"])


@pytest.fixture
def hosted(both: list[Hosted]) -> Hosted:
    return both[0]


@dataclass
class Room:
    """Bare clients in offices that no other test uses."""

    clients: Clients
    token: str
    office_id: str

    def other(self) -> "Room":
        return Room(self.clients, self.token, f"{self.office_id}-other")

    async def client(self, **how: Any) -> Client:
        return await self.clients.client(self.token, **how)

    async def member(self, role: str, name: str, **how: Any) -> Client:
        client = await self.client(**how)
        assert await client.join(role, name, self.office_id) == [True, None]
        return client

    async def agent(self, name: str = "boss", **how: Any) -> Client:
        return await self.member("agent", name, **how)

    async def computer(self, name: str = "hands", **how: Any) -> Client:
        return await self.member("computer", name, **how)

    async def names(self, who: Client) -> list[str]:
        return [one["name"] for one in (await who.list_room(self.office_id))["sessions"]]


@pytest.fixture
async def room(hosted: Hosted) -> AsyncIterator[Room]:
    async with AsyncExitStack() as stack:
        yield Room(hosted.clients(stack), hosted.token, f"office-{secrets.token_hex(4)}")


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as made:
        yield made
