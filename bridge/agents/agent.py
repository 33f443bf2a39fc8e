"""What is known of an agent, and of the node on which it lives. Times are milliseconds since 1970.

What an agent is doing, and the steps from one to the other.

Agent federation 1.0.0, appendix A. Its picture leaves `recover` hanging between Error and Shutdown: here an
agent that recovers is idle again. The agents of this node are held to the table. Of agents elsewhere their
nodes' word is taken, even if it skips a step.

What agents say they can do: names such as `coding`, or `runtime:kimi`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from bridge.agents.address import AgentAddress
from federation.matrix.globs import Glob


class AgentStatus(StrEnum):
    INITIAL = "initial"
    """Not registered yet. It is never sent."""
    RUNNING = "running"
    """Nobody gets here by the table: an agent may say it of itself, and counts as idle."""
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"
    SHUTDOWN = "shutdown"

    @property
    def is_available(self) -> bool:
        """Whether it would begin with a task at once."""
        return self in _AVAILABLE


class StatusInput(StrEnum):
    REGISTER = "register"
    START = "start"
    """Of a task."""
    COMPLETE = "complete"
    """A task has ended, however."""
    ERROR = "error"
    """It is the agent that failed, not what it was given to do."""
    RECOVER = "recover"
    SHUTDOWN = "shutdown"


_AVAILABLE: Final = frozenset({AgentStatus.RUNNING, AgentStatus.IDLE})
WIRE_STATUSES: Final = frozenset(AgentStatus) - {AgentStatus.INITIAL}
"""What may be said of an agent."""

# What is not in it does not happen to an agent of this node.
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
    """None where the table has no such step: the status stays, and whoever asked for it is told."""
    return TRANSITIONS.get((status, message))


def read_status(text: object) -> AgentStatus | None:
    """A status as it is said of an agent; None for anything else, `initial` included."""
    if not isinstance(text, str) or text not in WIRE_STATUSES:
        return None
    return AgentStatus(text)


MOST: Final = 64
LONGEST: Final = 128
"""Characters of one name."""

Capabilities = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoCapabilities:
    """What was said is none, and why."""

    reason: str


def read_capabilities(said: object) -> Capabilities | NoCapabilities:
    """Each once, in their order. A name is compared as it is written, but for upper and lower case."""
    if not isinstance(said, list | tuple):
        return NoCapabilities("capabilities are a list of names")
    if len(said) > MOST:
        return NoCapabilities(f"an agent has at most {MOST} capabilities")
    names: dict[str, str] = {}
    for name in said:
        if not isinstance(name, str):
            return NoCapabilities("the name of a capability is a string")
        if not 0 < len(name) <= LONGEST:
            return NoCapabilities(f"the name of a capability has 1 to {LONGEST} characters")
        if not name.isprintable() or name != name.strip():
            return NoCapabilities("the name of a capability is printable, without space around it")
        names.setdefault(name.casefold(), name)
    return tuple(names.values())


def missing(capabilities: Collection[str], wanted: Iterable[str]) -> Capabilities:
    """Those of the wanted ones that are not there. `*` and `?` in a wanted name stand for any characters and
    for one."""
    return tuple(name for name in wanted if not _has(capabilities, name))


def _has(capabilities: Collection[str], wanted: str) -> bool:
    folded = wanted.casefold()
    if "*" in folded or "?" in folded:
        glob = Glob(folded)
        return any(glob.matches(name.casefold()) for name in capabilities)
    return any(name.casefold() == folded for name in capabilities)


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
    sent_at: int
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
    heartbeat_sent_at: int | None = None
    """The time that the newest heartbeat bore, by the node's own clock."""
    silent_since: int | None = None
    """None as long as it is heard."""

    @property
    def is_cut_off(self) -> bool:
        """Whether this node has decided to hear nothing of it."""
        return not self.trusted and self.silent_since is not None
