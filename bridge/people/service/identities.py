"""Which users are agents, and which agents are users of this node."""

from dataclasses import dataclass

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.ghost import GhostNames, NoGhost


@dataclass(frozen=True, slots=True)
class Identities:
    names: GhostNames
    routes: RoutingTable

    def is_ours(self, user: str) -> bool:
        return self.names.is_ours(user)

    def agent_of(self, user: str) -> AgentAddress | None:
        """The agent that this user is; None for a person, and for one of whom nothing is known."""
        address = self.names.address(user)
        return address if address is not None and self.routes.agent(address) is not None else None

    def ghost_of(self, address: AgentAddress) -> str | None:
        """The user of ours that the agent is; None for one that is a user of another node, or nobody's."""
        ghost = self.names.ghost(address)
        return None if isinstance(ghost, NoGhost) else ghost
