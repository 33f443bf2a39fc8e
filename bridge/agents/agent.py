"""Agents and nodes as the routing table knows them, the states of an agent, and capabilities.

Times are milliseconds since 1970. The states follow agent federation 1.0.0, appendix A. Its picture leaves
the target of `recover` open; here a recovered agent is idle. Agents of this node follow the transition table.
For other agents the status that their node reports is accepted, even if it skips a step.

Capabilities are names such as `coding` or `runtime:kimi` that an agent declares.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from bridge.agents.address import AgentAddress
from federation.matrix.globs import Glob


class AgentStatus(StrEnum):
    INITIAL = "initial"
    """Not registered yet. This status is never sent."""
    RUNNING = "running"
    """No transition leads here. An agent may report it, and then counts as idle."""
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"
    SHUTDOWN = "shutdown"

    @property
    def is_available(self) -> bool:
        """Whether the agent would start a task at once."""
        return self in _AVAILABLE


class StatusInput(StrEnum):
    REGISTER = "register"
    START = "start"
    """A task has started."""
    COMPLETE = "complete"
    """The agent's last task has ended, with any outcome."""
    ERROR = "error"
    """The agent failed, as opposed to its task."""
    RECOVER = "recover"
    SHUTDOWN = "shutdown"


_AVAILABLE: Final = frozenset({AgentStatus.RUNNING, AgentStatus.IDLE})
WIRE_STATUSES: Final = frozenset(AgentStatus) - {AgentStatus.INITIAL}
"""The statuses that may be sent."""

# A step that is not in the table does not happen to an agent of this node.
TRANSITIONS: Final[Mapping[tuple[AgentStatus, StatusInput], AgentStatus]] = {
    (AgentStatus.INITIAL, StatusInput.REGISTER): AgentStatus.IDLE,
    (AgentStatus.INITIAL, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.RUNNING, StatusInput.START): AgentStatus.BUSY,
    (AgentStatus.RUNNING, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.IDLE, StatusInput.START): AgentStatus.BUSY,
    (AgentStatus.IDLE, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.BUSY, StatusInput.COMPLETE): AgentStatus.IDLE,
    (AgentStatus.BUSY, StatusInput.ERROR): AgentStatus.ERROR,
    (AgentStatus.BUSY, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.ERROR, StatusInput.RECOVER): AgentStatus.IDLE,
    (AgentStatus.ERROR, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.SHUTDOWN, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
}


def next_status(status: AgentStatus, message: StatusInput) -> AgentStatus | None:
    """None if the table has no such step; the status then stays."""
    return TRANSITIONS.get((status, message))


def parse_status(text: object) -> AgentStatus | None:
    """Parse a status as sent; None for anything else, `initial` included."""
    if not isinstance(text, str) or text not in WIRE_STATUSES:
        return None
    return AgentStatus(text)


MAX_CAPABILITIES: Final = 64
MAX_CAPABILITY_LENGTH: Final = 128
"""Characters of one capability."""

Capabilities = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InvalidCapabilities:
    """The value is not a list of capabilities; `reason` says why."""

    reason: str


def parse_capabilities(value: object) -> Capabilities | InvalidCapabilities:
    """Parse capabilities, without duplicates and in their order. Names are compared without regard to
    case."""
    if not isinstance(value, list | tuple):
        return InvalidCapabilities("capabilities are a list of names")
    if len(value) > MAX_CAPABILITIES:
        return InvalidCapabilities(f"an agent has at most {MAX_CAPABILITIES} capabilities")
    names: dict[str, str] = {}
    for name in value:
        if not isinstance(name, str):
            return InvalidCapabilities("the name of a capability is a string")
        if not 0 < len(name) <= MAX_CAPABILITY_LENGTH:
            return InvalidCapabilities(f"the name of a capability has 1 to {MAX_CAPABILITY_LENGTH} characters")
        if not name.isprintable() or name != name.strip():
            return InvalidCapabilities("the name of a capability is printable, without space around it")
        names.setdefault(name.casefold(), name)
    return tuple(names.values())


def missing_capabilities(capabilities: Collection[str], wanted: Iterable[str]) -> Capabilities:
    """The wanted capabilities that the agent does not have. `*` and `?` in a wanted name match any characters
    and one character."""
    return tuple(name for name in wanted if not _has(capabilities, name))


def _has(capabilities: Collection[str], wanted: str) -> bool:
    folded = wanted.casefold()
    if "*" in folded or "?" in folded:
        glob = Glob(folded)
        return any(glob.matches(name.casefold()) for name in capabilities)
    return any(name.casefold() == folded for name in capabilities)


TIMEOUT: Final = "timeout"
"""The reason with which an agent goes offline that sent no heartbeat for too long."""
UNTRUSTED: Final = "untrusted"
"""The reason with which an agent goes offline when its node is no longer trusted."""


class Agent(NamedTuple):
    """An agent of any node. A tuple rather than a dataclass, because up to a hundred thousand are loaded at
    once."""

    agent_id: str
    node_id: str
    connector: str
    """The connector that delivers tasks to the agent."""
    runtime: str
    capabilities: Capabilities
    status: AgentStatus
    current_task: str | None
    registered_at: int
    sent_at: int
    """The timestamp of the newest update of the agent, by its node's clock."""
    last_seen: int | None
    """When the agent itself sent a heartbeat last; None if it is online as long as its node is."""
    gone_at: int | None = None
    gone_reason: str | None = None

    @property
    def address(self) -> AgentAddress:
        return AgentAddress(self.agent_id, self.node_id)

    @property
    def is_online(self) -> bool:
        """Whether the agent is registered and not lost, on whichever node."""
        return self.gone_at is None

    @property
    def is_lost(self) -> bool:
        """Whether the agent timed out or its node lost trust, as opposed to having unregistered."""
        return self.gone_reason in (TIMEOUT, UNTRUSTED)


class AgentNode(NamedTuple):
    node_id: str
    url: str | None
    """None if the node is found by server discovery."""
    trusted: bool
    first_seen_at: int
    last_heartbeat: int | None = None
    heartbeat_sent_at: int | None = None
    """The timestamp of the node's newest heartbeat, by the node's clock."""
    silent_since: int | None = None
    """Since when the node has sent no heartbeat; None while it sends them."""

    @property
    def is_blocked(self) -> bool:
        """Whether this node ignores the node because it is not trusted."""
        return not self.trusted and self.silent_since is not None
