"""Which Matrix users are ours, and whom each of them stands for: on a homeserver of our own, and on one of
which this node is a guest.

A guest's node id is not the name of the homeserver: there `worker-1@kitchen.local` is
`@_agent_worker-1:their.server`, people live beside it, and agents of other nodes are users of that homeserver
too. Everything that speaks in rooms asks here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from appservice.namespaces import Namespaces
from bridge.address import AgentAddress
from bridge.ghost import NoGhost, address_of, puppet_id, puppet_of, user_id
from bridge.terminal_text import harmless
from federation.identifiers import domain

NODE_USER: Final = "palaver"
"""The localpart of the user as whom a homeserver of our own speaks."""


class GhostNames(Protocol):
    @property
    def node_id(self) -> str:
        """Of whose agents the addresses end so."""
        ...

    @property
    def domain(self) -> str:
        """What the homeserver is called, in whose rooms we speak."""
        ...

    @property
    def node_user(self) -> str:
        """As whom the node itself speaks."""
        ...

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        """The user of ours that the agent is; None for one that is a user of another homeserver."""
        ...

    def address(self, user: str) -> AgentAddress | None:
        """The agent that this user would be, known or not; None for who cannot be one."""
        ...

    def is_ours(self, user: str) -> bool:
        """Whether this node acts as this user, and nobody else does."""
        ...


def nobody(address: AgentAddress) -> bool:
    """All other nodes are homeservers, and their agents their own users."""
    return False


@dataclass(frozen=True, slots=True)
class HomeserverNames:
    """`has_puppet`: an agent of another node that is no homeserver, so that it is a user of this one."""

    node_id: str
    has_puppet: Callable[[AgentAddress], bool] = nobody

    @property
    def domain(self) -> str:
        return self.node_id

    @property
    def node_user(self) -> str:
        return f"@{NODE_USER}:{self.node_id}"

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        if address.node_id == self.node_id:
            return user_id(address)
        return puppet_id(address, self.node_id) if self.has_puppet(address) else None

    def address(self, user: str) -> AgentAddress | None:
        if user == self.node_user:
            return None
        return puppet_of(user, self.node_id) or address_of(user)

    def is_ours(self, user: str) -> bool:
        return domain(user) == self.node_id


@dataclass(frozen=True, slots=True)
class GuestNames:
    """Users of other homeservers are people here: whose agents they may be, those say by the mark that is on
    what their agents say."""

    namespaces: Namespaces

    @property
    def node_id(self) -> str:
        return self.namespaces.node_id

    @property
    def domain(self) -> str:
        return self.namespaces.domain

    @property
    def node_user(self) -> str:
        return self.namespaces.node_user

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        user = self.namespaces.user(address.agent_id, address.node_id)
        if user is None:
            return NoGhost(
                f"The name of {harmless(str(address), 80)} is too long for a user of {self.domain}: choose a"
                " shorter id, or one of a-z, 0-9, '.', '_', '-', '/' and '+', which count once."
            )
        return user

    def address(self, user: str) -> AgentAddress | None:
        named = None if user == self.node_user else self.namespaces.agent(user)
        address = None if named is None else AgentAddress.of(*named)
        return address if isinstance(address, AgentAddress) else None

    def is_ours(self, user: str) -> bool:
        return self.namespaces.owns_user(user)
