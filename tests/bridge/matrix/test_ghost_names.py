"""The users that a node acts as, on its own homeserver and when attached to one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appservice.registration.namespaces import Namespaces
from bridge.agents.address import AgentAddress
from bridge.matrix.ghost import AppserviceGhostNames, GhostNames, HomeserverGhostNames, NoGhost, user_id

HOME: GhostNames = HomeserverGhostNames("kitchen.local", lambda address: address.node_id == "garden.local")
GUEST: GhostNames = AppserviceGhostNames(Namespaces("their.server", "kitchen.local", "_agent_"))
WORKER = AgentAddress("worker-1", "kitchen.local")
COOK = AgentAddress("cook", "garden.local")
OTHER = AgentAddress("worker-1", "cellar.local")


def test_homeserver_node() -> None:
    """Its users are its agents, and agents of nodes that are not homeservers."""
    assert (HOME.node_id, HOME.domain, HOME.node_user) == ("kitchen.local", "kitchen.local", "@palaver:kitchen.local")
    assert HOME.ghost(WORKER) == user_id(WORKER) == "@worker-1:kitchen.local"
    assert HOME.ghost(COOK) == "@cook=40garden.local:kitchen.local"
    assert HOME.ghost(OTHER) is None
    assert HomeserverGhostNames("kitchen.local").ghost(COOK) is None
    assert HOME.address("@worker-1:kitchen.local") == WORKER
    assert HOME.address("@worker-1:cellar.local") == OTHER
    assert HOME.address("@cook=40garden.local:kitchen.local") == COOK
    assert HOME.address(HOME.node_user) is None
    assert HOME.is_ours("@alice:kitchen.local")
    assert not HOME.is_ours("@worker-1:cellar.local")


def test_attached_node() -> None:
    """All agents are users of the homeserver with one name each; people are not ghosts, nor are users of a
    homeserver with the node's name."""
    assert (GUEST.node_id, GUEST.domain, GUEST.node_user) == (
        "kitchen.local",
        "their.server",
        "@_agent_palaver:their.server",
    )
    assert GUEST.ghost(WORKER) == "@_agent_worker-1:their.server"
    assert GUEST.ghost(OTHER) == "@_agent_worker-1=40cellar.local:their.server"
    assert GUEST.address("@_agent_worker-1:their.server") == WORKER
    assert GUEST.address("@_agent_worker-1=40cellar.local:their.server") == OTHER
    for user in (
        GUEST.node_user,
        "@alice:their.server",
        "@worker-1:kitchen.local",
        "@_agent_worker-1:kitchen.local",
        "@worker-1:cellar.local",
        "@_agent_worker-1=40kitchen.local:their.server",
        "@_agent_:their.server",
        "nonsense",
    ):
        assert GUEST.address(user) is None
    assert GUEST.is_ours("@_agent_worker-1:their.server")
    assert GUEST.is_ours(GUEST.node_user)
    assert not GUEST.is_ours("@alice:their.server")
    assert not GUEST.is_ours("@worker-1:kitchen.local")


@pytest.mark.parametrize("names", [HOME, GUEST])
def test_node_user(names: GhostNames) -> None:
    """No agent can have this user."""
    assert names.ghost(AgentAddress("palaver", names.node_id)) == names.node_user


@pytest.mark.parametrize("names", [HOME, GUEST])
def test_too_long_id_has_no_user(names: GhostNames) -> None:
    """With a reason."""
    refused = names.ghost(AgentAddress("W" * 200, "kitchen.local"))
    assert isinstance(refused, NoGhost)
    assert "choose a shorter id" in refused.reason


@given(agent_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), here=st.booleans())
def test_round_trip(agent_id: str, here: bool) -> None:
    """An address is found by its user."""
    address = AgentAddress.of(agent_id, "kitchen.local" if here else "garden.local")
    if not isinstance(address, AgentAddress) or agent_id == "palaver":
        return
    for names in (HOME, GUEST):
        user = names.ghost(address)
        if isinstance(user, str):
            assert names.address(user) == address
            assert names.is_ours(user)
