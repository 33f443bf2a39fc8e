"""Unmodified published clients in the offices of a running node: all that they do with their published
server, and different versions in one office."""

import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.support.postgres import Server
from tests.support.smcp import VERSIONS, Peers, Refused
from tests.support.smcp.walk import STEPS, Expectations, Pair, Step, arrive
from tests.support.smcp.walk_calls import walk_call, walk_unknown_computer
from tests.support.smcp.walk_getters import walk_tools
from tests.support.smcp.walk_membership import connect, walk_lost_computer, walk_notifications, walk_same_name

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("published offices")]

OFFICES = """
[offices]
enabled = true
"""
# Pairs of an older and a newer client.
MIXED = [("0.2.2", "0.4.2"), ("0.4.2", "0.2.2"), ("0.1.2", "0.3.3"), ("0.3.3", "0.1.2")]


@dataclass
class Hosted:
    node: AgentNode
    token: str

    def expectations(self) -> Expectations:
        return Expectations(
            url=self.node.url("", "http"),
            token=self.token,
            office=f"kitchen-{secrets.token_hex(4)}",
            # The connection decides the sender, not the name in its requests.
            agent_id="planner-7",
        )


@pytest.fixture(scope="module")
async def hosted(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[Hosted]:
    node = {"name": "kitchen.local", "more": OFFICES}
    async with agent_nodes(palaver, postgres_server, migrated_template, node) as [one]:
        code, said = await one.palaver("offices", "token", "create", "everybody", "--json")
        assert code == 0, said
        yield Hosted(one, json.loads(said)["token"])


async def paired(hosted: Hosted, peers: Peers, of_agent: str, of_computer: str) -> Pair:
    agent, computer = await peers.agent(of_agent), await peers.computer(of_computer)
    pair = Pair(peers, agent, computer, hosted.expectations())
    await pair.walk(arrive)
    return pair


@pytest.fixture(scope="module", params=VERSIONS)
async def pair(
    hosted: Hosted, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Pair]:
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        yield await paired(hosted, peers, request.param, request.param)


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as made:
        yield made


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_a_step(pair: Pair, step: Step) -> None:
    """Each version, as with its own server."""
    await pair.walk(step)


async def test_a_name_belongs_to_one_computer(pair: Pair) -> None:
    """In one office."""
    other = await pair.peers.computer(pair.computer.version)
    await walk_same_name(pair.agent, pair.computer, pair.expectations, other)


@pytest.mark.parametrize("version", VERSIONS)
async def test_calls_to_a_lost_computer_are_answered(hosted: Hosted, peers: Peers, version: str) -> None:
    """At once, for clients of every version."""
    await (await paired(hosted, peers, version, version)).walk(walk_lost_computer)


@pytest.mark.parametrize(("of_agent", "of_computer"), MIXED)
async def test_versions_share_an_office(hosted: Hosted, peers: Peers, of_agent: str, of_computer: str) -> None:
    """They can use what both support: the server passes on what it does not know itself."""
    pair = await paired(hosted, peers, of_agent, of_computer)
    for step in (walk_tools, walk_call, walk_unknown_computer, walk_notifications):
        await pair.walk(step)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_wrong_token_is_refused(hosted: Hosted, peers: Peers, version: str) -> None:
    """Also one of the right form."""
    x = replace(hosted.expectations(), token=hosted.token[:-1] + ("0" if hosted.token[-1] != "0" else "1"))
    for peer in (await peers.agent(version), await peers.computer(version)):
        with pytest.raises(Refused, match="failed to connect"):
            await connect(peer, x)


async def test_a_second_agent_gets_an_error_at_its_first_call(hosted: Hosted, peers: Peers) -> None:
    """Published Agents read no answer to their join. The error comes at once, and no member is notified."""
    pair = await paired(hosted, peers, "0.4.2", "0.4.2")
    rival = await peers.agent("0.4.2", name="rival")
    await connect(rival, pair.expectations)
    pair.computer.forget()
    await rival.do("join", office=pair.expectations.office, name="rival")
    with pytest.raises(Refused):
        await rival.do("tools", computer=pair.computer.name)
    assert pair.computer.heard("notify:enter_office") == []
    await pair.walk(walk_call)
