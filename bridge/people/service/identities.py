"""Which users are agents, and which agents are users of this node."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge.address import AgentAddress
from bridge.ghost import NoGhost, address_of, puppet_id, puppet_of, user_id
from bridge.service.routing_table import RoutingTable
from federation.identifiers import domain


def nobody(address: AgentAddress) -> bool:
    """All other nodes are homeservers, and their agents their own users."""
    return False


@dataclass(frozen=True, slots=True)
class Identities:
    """`has_puppet`: an agent of another node that is no homeserver, so that it is a user of this one.
    `is_own_user`: where people live on the same homeserver, as whom this node acts and as whom not."""

    server_name: str
    node_user: str
    routes: RoutingTable
    has_puppet: Callable[[AgentAddress], bool] = nobody
    is_own_user: Callable[[str], bool] | None = None

    def is_ours(self, user: str) -> bool:
        if self.is_own_user is not None:
            return self.is_own_user(user)
        return domain(user) == self.server_name

    def agent_of(self, user: str) -> AgentAddress | None:
        """The agent that this user is; None for a person, and for one of whom nothing is known."""
        if user == self.node_user:
            return None
        address = puppet_of(user, self.server_name) or address_of(user)
        return address if address is not None and self.routes.agent(address) is not None else None

    def ghost_of(self, address: AgentAddress) -> str | None:
        """The user of ours that the agent is; None for one that is a user of another node, or nobody's."""
        if address.node_id == self.server_name:
            ghost = user_id(address)
        elif self.has_puppet(address):
            ghost = puppet_id(address, self.server_name)
        else:
            return None
        return None if isinstance(ghost, NoGhost) else ghost
