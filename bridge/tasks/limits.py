"""Limits on the tasks that one agent and one node may request.

Agent federation 1.0.0, "Best practices": "limit rates: keep a single agent from using too much". A request
beyond a limit is refused with an error. The refusal is not stored, so that the request may be sent again
under the same id.
"""

from dataclasses import dataclass, field
from typing import Final

from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import DEFAULT_TIMEOUT_MS, TaskRequest, check_request
from federation.peers.limits import Buckets, Rate

MIN_TIMEOUT_MS: Final = 1
AGENT_RATE: Final = Rate(200, 2_000)
NODE_RATE: Final = Rate(1_000, 10_000)
MAX_RATE_BUCKETS: Final = 20_000
"""Agents and nodes whose rates are tracked. Beyond that the least recently used entry is dropped and starts
anew."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """The defaults do not limit a busy agent that behaves well; they stop one that requests tasks without
    end."""

    default_timeout_ms: int = DEFAULT_TIMEOUT_MS
    max_timeout_ms: int = 3_600_000
    # Of a request: prompt, context, system prompt and metadata together.
    max_request_bytes: int = 262_144
    max_output_bytes: int = 1_048_576
    agent_rate: Rate = AGENT_RATE
    node_rate: Rate = NODE_RATE
    # Tasks that have not ended: of one requesting node, and of all nodes.
    max_live_per_node: int = 20_000
    max_live: int = 50_000

    def timeout_ms(self, requested: int | None) -> int:
        """ "`timeout_secs` counted from receipt, capped by configuration"."""
        wanted = self.default_timeout_ms if requested is None else requested
        return max(MIN_TIMEOUT_MS, min(wanted, self.max_timeout_ms))


@dataclass(slots=True)
class TaskLimiter:
    limits: TaskLimits = field(default_factory=TaskLimits)
    _agents: Buckets[str] = field(init=False)
    _nodes: Buckets[str] = field(init=False)

    def __post_init__(self) -> None:
        self._agents = Buckets(MAX_RATE_BUCKETS)
        self._nodes = Buckets(MAX_RATE_BUCKETS)

    def check(self, request: TaskRequest, now: float) -> TaskError | None:
        """Count one more request, and return why it is refused, or None. `now` is in seconds of a monotonic
        clock."""
        agent = str(request.from_address)
        excess = self._agents.take(agent, self.limits.agent_rate, now)
        if excess is not None:
            return _too_fast(f"The agent {agent}", excess.retry_after_ms)
        excess = self._nodes.take(request.key.node_id, self.limits.node_rate, now)
        if excess is not None:
            return _too_fast(f"The node {request.key.node_id}", excess.retry_after_ms)
        return check_request(request, self.limits.max_request_bytes)

    def check_live_tasks(self, node_id: str, of_node: int, total: int) -> TaskError | None:
        """Return an error if too many tasks have not ended: `of_node` of the requesting node, or `total`
        together."""
        if of_node >= self.limits.max_live_per_node:
            reason = f"{of_node} tasks of the node {node_id} have not ended yet, which is the limit."
        elif total >= self.limits.max_live:
            reason = "This node has too many tasks that have not ended yet."
        else:
            return None
        return TaskError(ErrorCode.AGENT_BUSY, reason)


def _too_fast(requester: str, retry_after_ms: int) -> TaskError:
    reason = f"{requester} requests tasks too fast."
    return TaskError(ErrorCode.AGENT_BUSY, reason, {"retry_after_ms": retry_after_ms})
