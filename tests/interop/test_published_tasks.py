"""Published Agents that get tasks: what their package lets them declare, and how it handles an unknown
event."""

import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.tasks.errors import ErrorCode
from bridge.tasks.view import EXIT_CODES
from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.support.postgres import Server
from tests.support.smcp import VERSIONS, Peers
from tests.support.smcp.processes import PublishedAgent

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("published tasks")]

OFFICES = """
[offices]
enabled = true
"""


@dataclass
class Hosted:
    node: AgentNode
    token: str

    async def agent(self, peers: Peers, version: str, *, reads_tasks: bool) -> tuple[PublishedAgent, str]:
        """An agent in its own office, and its address."""
        agent, office = await peers.agent(version), f"kitchen-{secrets.token_hex(4)}"
        # In 0.1 the credential was in a header.
        headers = None if agent.protocol else {"x-api-key": self.token}
        await agent.do(
            "connect", url=self.node.url("", "http"), token=self.token, agent="planner-7", office=office,
            headers=headers, reads_tasks=reads_tasks,
        )  # fmt: skip
        await agent.do("join", office=office, name="planner")
        address = f"{office}/planner@{self.node.name}"
        await self.node.sees(address)
        return agent, address


@pytest.fixture(scope="module")
async def hosted(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[Hosted]:
    node = {"name": "kitchen.local", "more": OFFICES}
    async with agent_nodes(palaver, postgres_server, migrated_template, node) as [one]:
        code, said = await one.palaver("offices", "token", "create", "everybody", "--json")
        assert code == 0, said
        yield Hosted(one, json.loads(said)["token"])


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as made:
        yield made


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_agent_declares_that_it_reads_tasks(hosted: Hosted, peers: Peers, version: str) -> None:
    """In its auth provider, beside the credential, in every version; its answer is what its handler
    returns."""
    agent, address = await hosted.agent(peers, version, reads_tasks=True)
    assert await hosted.node.palaver("task", "send", address, "peel") == (0, "did peel")
    said = await agent.until("palaver:task")
    assert (said["prompt"], said["from"]) == ("peel", "operator@kitchen.local")


async def test_an_agent_without_the_declaration_gets_no_tasks(hosted: Hosted, peers: Peers) -> None:
    """The requester gets the reason at once."""
    agent, address = await hosted.agent(peers, "0.4.2", reads_tasks=False)
    code, _ = await hosted.node.palaver("task", "send", address, "peel")
    assert code == EXIT_CODES[ErrorCode.INVALID_PAYLOAD]
    assert agent.heard("palaver:task") == []
