"""Agents as contacts."""

from collections.abc import Callable

import pytest

from appservice.registration.namespaces import Namespaces
from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing import Local, Route, Unknown
from bridge.matrix.ghost import AppserviceGhostNames
from bridge.provisioning.contacts import MAX_TEXT, contact, find_agents, list_agents, resolve
from bridge.tasks.errors import ErrorCode
from federation.matrix.errors import MatrixError
from tests.support.agents import NOW, address

NAMES = AppserviceGhostNames(Namespaces("their.server", "kitchen.local", "_agent_"))


def agent(text: str, *capabilities: str, gone_at: int | None = None) -> Agent:
    where = address(text)
    return Agent(
        where.agent_id, where.node_id, "cis", "claude", tuple(capabilities), AgentStatus.IDLE, None, NOW, NOW,
        None, gone_at,
    )  # fmt: skip


AGENTS = [
    agent("b@cellar.local"),
    agent("z@kitchen.local", "peeling"),
    agent("a@kitchen.local"),
    agent("x@attic.local", gone_at=NOW),
]


def test_list_agents() -> None:
    """Online ones, local ones first, up to a limit."""
    assert [str(one.address) for one in list_agents(AGENTS, "kitchen.local")] == [
        "a@kitchen.local", "z@kitchen.local", "b@cellar.local",
    ]  # fmt: skip
    assert len(list_agents(AGENTS, "kitchen.local", 2)) == 2


def test_find_agents() -> None:
    """By all words; an empty search finds none."""
    assert [one.agent_id for one in find_agents(AGENTS, "Peeling KITCHEN")] == ["z"]
    assert len(find_agents(AGENTS, "local", 2)) == 2
    assert find_agents(AGENTS, "  ") == []
    assert find_agents(AGENTS, "attic") == []
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        find_agents(AGENTS, "x" * (MAX_TEXT + 1))


def test_contact() -> None:
    """With an existing chat; invalid users are omitted."""
    assert contact(AGENTS[0], NAMES) == {
        "id": "b@cellar.local",
        "name": "b",
        "identifiers": ["palaver:b@cellar.local"],
        "mxid": "@_agent_b=40cellar.local:their.server",
    }
    credentials = contact(AGENTS[2], NAMES, name="Cook", avatar="mxc://a/b", room="!r")
    assert (credentials["name"], credentials["avatar_url"], credentials["dm_room_mxid"]) == ("Cook", "mxc://a/b", "!r")
    assert "mxid" not in contact(agent(f"{'Ü' * 100}@kitchen.local"), NAMES)


def routes(route: Route) -> Callable[[str], Route]:
    return lambda text: route


NOBODY = routes(Unknown(ErrorCode.AGENT_NOT_FOUND, "There is no agent a."))


@pytest.mark.parametrize(
    ("text", "whom"),
    [
        ("worker-1@kitchen.local", "worker-1@kitchen.local"),
        ("palaver:worker-1@kitchen.local", "worker-1@kitchen.local"),
        ("@_agent_worker-1:their.server", "worker-1@kitchen.local"),
        ("@_agent_b=40cellar.local:their.server", "b@cellar.local"),
    ],
)
def test_resolve(text: str, whom: str) -> None:
    """By address, user, or an unambiguous id."""
    assert resolve(text, NAMES, NOBODY) == address(whom)
    here = AgentAddress("a", "kitchen.local")
    assert resolve("a", NAMES, routes(Local(here))) == here


@pytest.mark.parametrize(
    "text", ["", "@alice:their.server", "@_agent_x:other.server", "a@b@c", "a", "x" * 2_000, "a\0b", "@"]
)
def test_unresolvable_identifiers(text: str) -> None:
    """With a reason."""
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        resolve(text, NAMES, NOBODY)
