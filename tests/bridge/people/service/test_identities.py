"""Which users are agents, and which agents are users of this node."""

from bridge.people.service.identities import Identities
from storage.database import Database
from tests.support.agents import address, registered, routing_table


async def test_agents_and_their_users(database: Database) -> None:
    """Of this node, of another homeserver, of a node that is none; and people, who are none of them."""
    async with routing_table(database) as routes:
        agents = ("worker@here", "worker@kitchen", "cook@garden", "palaver@here")
        await routes.take([registered(one) for one in agents])
        identities = Identities("here", "@palaver:here", routes, lambda one: one.node_id == "garden")
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
        assert identities.is_ours("@anybody:here")
        assert not identities.is_ours("@worker:kitchen")
        guest = Identities("here", "@palaver:here", routes, is_own_user={"@worker:here"}.__contains__)
        assert guest.is_ours("@worker:here")
        assert not guest.is_ours("@alice:here")
        plain = Identities("here", "@palaver:here", routes)
        assert plain.ghost_of(address("cook@garden")) is None
