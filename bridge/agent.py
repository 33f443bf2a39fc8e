"""What is known of an agent, and of the node on which it lives. Times are milliseconds since 1970."""

from typing import Final, NamedTuple

from bridge.address import AgentAddress
from bridge.agent_status import AgentStatus
from bridge.capability import Capabilities

TIMEOUT: Final = "timeout"
"""The reason for which an agent is gone that was not heard from for too long."""
UNTRUSTED: Final = "untrusted"
"""The reason for which it is gone when its node is not trusted any more."""


class Agent(NamedTuple):
    """A tuple rather than a dataclass: there are a hundred thousand of them, all learned at once."""

    agent_id: str
    node_id: str
    connector: str
    """Which one brings it its tasks."""
    runtime: str
    capabilities: Capabilities
    status: AgentStatus
    current_task: str | None
    registered_at: int
    said_at: int
    """The time that the newest word on it bore, by the clock of its node."""
    last_seen: int | None
    """When it was heard from by itself; None when it lives as long as its node is heard from."""
    gone_at: int | None = None
    gone_reason: str | None = None

    @property
    def address(self) -> AgentAddress:
        return AgentAddress(self.agent_id, self.node_id)

    @property
    def is_here(self) -> bool:
        """Whether it is there at all; on which node is another question."""
        return self.gone_at is None

    @property
    def is_lost(self) -> bool:
        """Not heard from any more, rather than gone in good order."""
        return self.gone_reason in (TIMEOUT, UNTRUSTED)


class AgentNode(NamedTuple):
    node_id: str
    url: str | None
    """None for one that is found by its name."""
    trusted: bool
    first_seen_at: int
    last_heartbeat: int | None = None
    heartbeat_said_at: int | None = None
    """The time that the newest heartbeat bore, by the node's own clock."""
    silent_since: int | None = None
    """None as long as it is heard."""

    @property
    def is_cut_off(self) -> bool:
        """Whether this node has decided to hear nothing of it."""
        return not self.trusted and self.silent_since is not None
