"""Agents and their Matrix users."""

from appservice.registration.namespaces import Namespaces
from bridge.matrix.ghost import AppserviceGhostNames, HomeserverGhostNames
from bridge.people.service.identities import Identities
from storage.database import Database
from tests.support.agents import address, registered, routing_table


async def test_the_users_of_agents(database: Database) -> None:
    """Of this node, of another homeserver, and of a node that is not a homeserver. People are not agents."""
    async with routing_table(database) as routes:
        agents = ("worker@here", "worker@kitchen", "cook@garden", "palaver@here")
        await routes.update([registered(one) for one in agents])
        identities = Identities(HomeserverGhostNames("here", lambda one: one.node_id == "garden"), routes)
        assert identities.agent_of("@worker:here") == address("worker@here")
        assert identities.agent_of("@worker:kitchen") == address("worker@kitchen")
        assert identities.agent_of("@cook=40garden:here") == address("cook@garden")
        for person in ("@alice:here", "@alice:kitchen", "@Worker:here", "nonsense"):
            assert identities.agent_of(person) is None
        # The node's own name is no agent's.
        assert identities.agent_of("@palaver:here") is None
        assert identities.ghost_of(address("worker@here")) == "@worker:here"
        assert identities.ghost_of(address("worker@kitchen")) is None
        assert identities.ghost_of(address("cook@garden")) == "@cook=40garden:here"
        assert identities.ghost_of(address(f"{'W' * 200}@here")) is None
        assert identities.is_local("@anybody:here")
        assert not identities.is_local("@worker:kitchen")
        plain = Identities(HomeserverGhostNames("here"), routes)
        assert plain.ghost_of(address("cook@garden")) is None


async def test_the_users_of_agents_on_an_existing_homeserver(database: Database) -> None:
    """They share its namespace with people."""
    async with routing_table(database) as routes:
        await routes.update([registered(one) for one in ("worker@here", "worker@kitchen", "palaver@here")])
        identities = Identities(AppserviceGhostNames(Namespaces("their.server", "here", "_agent_")), routes)
        assert identities.agent_of("@_agent_worker:their.server") == address("worker@here")
        assert identities.agent_of("@_agent_worker=40kitchen:their.server") == address("worker@kitchen")
        for person in (
            "@worker:their.server",
            "@worker:here",
            "@worker:kitchen",
            "@_agent_worker:here",
            "@_agent_nobody:their.server",
            "@_agent_palaver:their.server",
        ):
            assert identities.agent_of(person) is None
        assert identities.ghost_of(address("worker@here")) == "@_agent_worker:their.server"
        assert identities.ghost_of(address("worker@kitchen")) == "@_agent_worker=40kitchen:their.server"
        assert identities.ghost_of(address(f"{'W' * 200}@here")) is None
        assert identities.is_local("@_agent_worker:their.server")
        assert not identities.is_local("@worker:their.server")
