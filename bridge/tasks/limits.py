"""How much work one agent, and one node, may ask for.

Agent federation 1.0.0, "Best practices": "limit rates: keep a single agent from using too much". Crossing a
limit gets a clear error; it is not kept with the request's id, so that the same request may be made again.
"""

from dataclasses import dataclass, field
from typing import Final

from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import DEFAULT_TIMEOUT_MS, TaskRequest, check
from federation.peers.limits import Buckets, Rate

SHORTEST_TIMEOUT_MS: Final = 1
OF_AGENT: Final = Rate(200, 2_000)
OF_NODE: Final = Rate(1_000, 10_000)
MOST_TOLD_APART: Final = 20_000
"""Agents and nodes whose rates are told apart. Beyond that the one longest unheard of begins anew."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """The defaults are no hindrance to whoever is honest and very busy; they end what would never end."""

    default_timeout_ms: int = DEFAULT_TIMEOUT_MS
    longest_timeout_ms: int = 3_600_000
    # Of a request: prompt, context, system prompt and metadata together.
    most_bytes: int = 262_144
    most_output_bytes: int = 1_048_576
    of_agent: Rate = OF_AGENT
    of_node: Rate = OF_NODE
    # Tasks that have not ended: of one requesting node, and of all.
    live_of_node: int = 20_000
    live: int = 50_000

    def timeout_ms(self, asked: int | None) -> int:
        """ "`timeout_secs` counted from receipt, capped by configuration"."""
        wanted = self.default_timeout_ms if asked is None else asked
        return max(SHORTEST_TIMEOUT_MS, min(wanted, self.longest_timeout_ms))


@dataclass(slots=True)
class TaskLimiter:
    limits: TaskLimits = field(default_factory=TaskLimits)
    _agents: Buckets[str] = field(init=False)
    _nodes: Buckets[str] = field(init=False)

    def __post_init__(self) -> None:
        self._agents = Buckets(MOST_TOLD_APART)
        self._nodes = Buckets(MOST_TOLD_APART)

    def ask(self, request: TaskRequest, now: float) -> TaskError | None:
        """One more request; None if it may be worked on. `now` is seconds of a clock that never runs
        backwards."""
        agent = str(request.from_address)
        excess = self._agents.take(agent, self.limits.of_agent, now)
        if excess is not None:
            return _too_fast(f"The agent {agent}", excess.retry_after_ms)
        excess = self._nodes.take(request.key.node_id, self.limits.of_node, now)
        if excess is not None:
            return _too_fast(f"The node {request.key.node_id}", excess.retry_after_ms)
        return check(request, self.limits.most_bytes)

    def too_many(self, node_id: str, of_node: int, of_all: int) -> TaskError | None:
        """Whether too many tasks have not ended, of those that the node has asked for or of all."""
        if of_node >= self.limits.live_of_node:
            reason = f"The node {node_id} waits for {of_node} tasks already."
        elif of_all >= self.limits.live:
            reason = "Too many tasks have not ended yet."
        else:
            return None
        return TaskError(ErrorCode.AGENT_BUSY, reason)


def _too_fast(who: str, retry_after_ms: int) -> TaskError:
    reason = f"{who} asks for too much at once."
    return TaskError(ErrorCode.AGENT_BUSY, reason, {"retry_after_ms": retry_after_ms})
