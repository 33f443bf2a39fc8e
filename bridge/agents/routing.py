"""Where an address leads: this node, another node, or nowhere.

Agent federation 1.0.0, "Routing". The specification's table goes from bare agent ids to nodes, so that one
agent can take another's place; here the key is the whole address, and "the same agent id on two nodes is two
addresses". The names of the specification's functions are kept.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from bridge.agents.address import AgentAddress, BareId, NotAnAddress, parse_target
from bridge.agents.agent import UNTRUSTED, Agent, AgentNode, AgentStatus, missing
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.text.times import ago

T = TypeVar("T", bound=Hashable)

MOST_CANDIDATES: Final = 10
MOST_SHARED: Final = 10_000
_NONE: Final[Mapping[str, Agent]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Local:
    address: AgentAddress


@dataclass(frozen=True, slots=True)
class Remote:
    """`url` is None for a node that is found by its name."""

    address: AgentAddress
    url: str | None

    @property
    def node_id(self) -> str:
        return self.address.node_id


@dataclass(frozen=True, slots=True)
class Unknown:
    """`candidates` are addresses that may have been meant."""

    code: ErrorCode
    reason: str
    candidates: tuple[AgentAddress, ...] = ()

    def error(self) -> TaskError:
        """As a task's requester is told."""
        candidates = [str(address) for address in self.candidates]
        return TaskError(self.code, self.reason, {"candidates": candidates} if candidates else {})


Route: TypeAlias = Local | Remote | Unknown
Target: TypeAlias = str | AgentAddress | BareId


class _Node:
    __slots__ = ("agents", "here", "record")

    def __init__(self, record: AgentNode) -> None:
        self.record = record
        self.agents: dict[str, Agent] = {}
        self.here = 0


class AgentRoutingTable:
    """In memory, for one process. Agents that are gone stay in it until they are forgotten."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._shared: dict[Hashable, Hashable] = {}

    # -- what is known --

    def register_remote(self, agent_id: str, node_id: str) -> None:
        """An agent of which no more is known than where it is."""
        if self.agent(AgentAddress(agent_id, node_id)) is None:
            self.put(Agent(agent_id, node_id, "", "", (), AgentStatus.IDLE, None, 0, 0, None))

    def register_node_url(self, node_id: str, url: str) -> None:
        node = self._node(node_id)
        node.record = node.record._replace(url=url)

    def put(self, agent: Agent) -> Agent | None:
        """Gives what was known before."""
        node = self._node(agent.node_id)
        before = node.agents.get(agent.agent_id)
        node.agents[agent.agent_id] = agent
        node.here += agent.is_here - (before is not None and before.is_here)
        return before

    def put_node(self, record: AgentNode) -> None:
        """A heartbeat that was heard since is not taken back."""
        node = self._node(record.node_id)
        heard = node.record.last_heartbeat
        if heard is not None and heard > (record.last_heartbeat or 0):
            record = record._replace(last_heartbeat=heard, heartbeat_sent_at=node.record.heartbeat_sent_at)
        node.record = record

    def heard(self, node_id: str, at_ms: int, sent_at: int) -> None:
        """All agents that live with the node live, by this alone."""
        node = self._node(node_id)
        if at_ms >= (node.record.last_heartbeat or 0):
            node.record = node.record._replace(
                last_heartbeat=at_ms, heartbeat_sent_at=sent_at, silent_since=None
            )

    def forget(self, address: AgentAddress) -> None:
        node = self._nodes.get(address.node_id)
        if node is not None:
            agent = node.agents.pop(address.agent_id, None)
            node.here -= agent is not None and agent.is_here

    def shared(self, value: T) -> T:
        """The same object for equal values, of which most agents have few between them."""
        if len(self._shared) >= MOST_SHARED:
            self._shared.clear()
        known = self._shared.setdefault(value, value)
        assert isinstance(known, type(value)), "equal values are of one type"
        return known

    def agent(self, address: AgentAddress) -> Agent | None:
        return self.agents_of(address.node_id).get(address.agent_id)

    def agents_of(self, node_id: str) -> Mapping[str, Agent]:
        """By their ids; those that are gone, too."""
        node = self._nodes.get(node_id)
        return _NONE if node is None else node.agents

    def agents(self) -> Iterator[Agent]:
        for node in self._nodes.values():
            yield from node.agents.values()

    def node(self, node_id: str) -> AgentNode | None:
        node = self._nodes.get(node_id)
        return None if node is None else node.record

    def nodes(self) -> list[AgentNode]:
        return [node.record for node in self._nodes.values()]

    def count(self, node_id: str) -> int:
        """How many agents a node has that are there."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.here

    def last_seen(self, agent: Agent) -> int | None:
        """When it was heard from, by itself or with its node."""
        if agent.last_seen is not None:
            return agent.last_seen
        node = self.node(agent.node_id)
        return None if node is None else node.last_heartbeat

    def able(self, wanted: Collection[str]) -> list[Agent]:
        """Agents that can do all of that, those first that would begin at once."""
        found = [
            agent for agent in self.agents() if agent.is_here and not missing(agent.capabilities, wanted)
        ]
        return sorted(found, key=lambda agent: (not agent.status.is_available, agent.node_id, agent.agent_id))

    def _node(self, node_id: str) -> _Node:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node(AgentNode(node_id, None, trusted=False, first_seen_at=0))
        return node

    # -- decisions --

    def route(self, target: Target, local_node: str) -> Route:
        """ "Is it a local agent? … Ask the routing table … Not found? → Unknown Agent"."""
        parsed = parse_target(target) if isinstance(target, str) else target
        match parsed:
            case NotAnAddress(reason):
                return Unknown(ErrorCode.INVALID_PAYLOAD, reason)
            case BareId(agent_id):
                return self._route_id(agent_id, local_node)
            case AgentAddress():
                return self._route_address(parsed, local_node)

    def _route_id(self, agent_id: str, local_node: str) -> Route:
        """ "this node first, then the only node that has it; several or none: `AGENT_NOT_FOUND` with the
        candidates in metadata"."""
        at_home = self.agents_of(local_node).get(agent_id)
        if at_home is not None and at_home.is_here:
            return Local(at_home.address)
        candidates = self._with_id(agent_id)
        if not candidates:
            return Unknown(ErrorCode.AGENT_NOT_FOUND, f"No agent {agent_id} is known.")
        if len(candidates) > 1:
            reason = f"Agents {agent_id} are on several nodes: say which one is meant."
            return Unknown(ErrorCode.AGENT_NOT_FOUND, reason, candidates[:MOST_CANDIDATES])
        return self._route_address(candidates[0], local_node)

    def _route_address(self, address: AgentAddress, local_node: str) -> Route:
        agent = self.agent(address)
        if agent is None:
            return self._not_known(address)
        if not agent.is_here:
            return self._gone(agent)
        if address.node_id == local_node:
            return Local(address)
        node = self.node(address.node_id)
        return Remote(address, None if node is None else node.url)

    def _not_known(self, address: AgentAddress) -> Unknown:
        node = self.node(address.node_id)
        if node is not None and node.is_cut_off:
            return _cut_off(node)
        if node is not None:
            reason = f"The node {address.node_id} has no agent {address.agent_id}."
        else:
            reason = f"No node {address.node_id} is known."
        candidates = self._with_id(address.agent_id)[:MOST_CANDIDATES]
        return Unknown(ErrorCode.AGENT_NOT_FOUND, reason, candidates)

    def _gone(self, agent: Agent) -> Unknown:
        """ "routes end": of a node that is silent nobody knows whether its agents are still there."""
        node = self.node(agent.node_id)
        if agent.gone_reason == UNTRUSTED and node is not None and node.is_cut_off:
            return _cut_off(node)
        if agent.is_lost and node is not None and node.silent_since is not None:
            reason = f"The node {agent.node_id} has not been heard from for too long."
            return Unknown(ErrorCode.NODE_UNREACHABLE, reason)
        if agent.is_lost:
            reason = f"The agent {agent.address} has not been heard from for too long."
        else:
            reason = f"The agent {agent.address} has gone: {agent.gone_reason}."
        return Unknown(ErrorCode.AGENT_NOT_FOUND, reason, self._with_id(agent.agent_id)[:MOST_CANDIDATES])

    def _with_id(self, agent_id: str) -> tuple[AgentAddress, ...]:
        """One look for each node: an index by bare ids would cost as much memory as half of the table."""
        found = (node.agents.get(agent_id) for node in self._nodes.values())
        return tuple(sorted(agent.address for agent in found if agent is not None and agent.is_here))

    def explain(self, target: Target, local_node: str, now_ms: int) -> str:
        """The decision and why, as a person reads it."""
        route = self.route(target, local_node)
        if isinstance(route, Unknown):
            meant = ", ".join(map(str, route.candidates))
            return f"{route.reason} ({route.code}){f' There is {meant}.' if meant else ''}"
        agent = self.agent(route.address)
        assert agent is not None, "there is a route to it"
        doing = f"{agent.status}{f' with {agent.current_task}' if agent.current_task else ''}"
        runtime = f", {agent.runtime}" if agent.runtime else ""
        heard = f"{doing}{runtime}, last heard {ago(self.last_seen(agent), now_ms)}."
        if isinstance(route, Local):
            return f"{route.address} is an agent of this node: {heard}"
        url = f"at {route.url}" if route.url else "by its name"
        return f"{route.address} is on another node, which is reached {url}: {heard}"


def _cut_off(node: AgentNode) -> Unknown:
    return Unknown(ErrorCode.NODE_UNREACHABLE, f"This node does not exchange agents with {node.node_id}.")
