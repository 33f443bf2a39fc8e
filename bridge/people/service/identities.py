"""Maps users to agents, and agents to local users."""

from dataclasses import dataclass

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.ghost import GhostNames, NoGhost


@dataclass(frozen=True, slots=True)
class Identities:
    """The agents that Matrix users represent."""

    names: GhostNames
    routes: RoutingTable

    def is_local(self, user: str) -> bool:
        """Whether the user belongs to this node: it is the node's user or an agent's."""
        return self.names.is_ours(user)

    def agent_of(self, user: str) -> AgentAddress | None:
        """Return the agent that this user represents, or None for a person or an unknown agent."""
        address = self.names.address(user)
        return address if address is not None and self.routes.agent(address) is not None else None

    def ghost_of(self, address: AgentAddress) -> str | None:
        """Return the local user of an agent, or None if it has none or is a user of another node."""
        ghost = self.names.ghost(address)
        return None if isinstance(ghost, NoGhost) else ghost
