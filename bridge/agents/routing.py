"""Where an address leads: this node, another node, or nowhere.

Agent federation 1.0.0, "Routing". The specification's table maps bare agent ids to nodes, so that an agent
could replace another one of the same id. Here the key is the whole address: "the same agent id on two nodes
is two addresses". The function names are the specification's.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from bridge.agents.address import AgentAddress, BareAgentId, InvalidAddress, parse_target
from bridge.agents.agent import UNTRUSTED, Agent, AgentNode, AgentStatus, missing_capabilities
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.text.times import ago

T = TypeVar("T", bound=Hashable)

MAX_CANDIDATES: Final = 10
MAX_INTERNED: Final = 10_000
_NONE: Final[Mapping[str, Agent]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Local:
    address: AgentAddress


@dataclass(frozen=True, slots=True)
class Remote:
    """`url` is None if the node is found by server discovery."""

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
        """The error that the requester of a task gets."""
        candidates = [str(address) for address in self.candidates]
        return TaskError(self.code, self.reason, {"candidates": candidates} if candidates else {})


Route: TypeAlias = Local | Remote | Unknown
Target: TypeAlias = str | AgentAddress | BareAgentId


class _Node:
    __slots__ = ("agents", "online", "record")

    def __init__(self, record: AgentNode) -> None:
        self.record = record
        self.agents: dict[str, Agent] = {}
        self.online = 0


class AgentRoutingTable:
    """The table in the memory of one process. Agents that are offline stay in it until they are pruned."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._interned: dict[Hashable, Hashable] = {}

    # -- contents --

    def register_remote(self, agent_id: str, node_id: str) -> None:
        """Add an agent of which only the address is known."""
        if self.agent(AgentAddress(agent_id, node_id)) is None:
            self.put(Agent(agent_id, node_id, "", "", (), AgentStatus.IDLE, None, 0, 0, None))

    def register_node_url(self, node_id: str, url: str) -> None:
        node = self._node(node_id)
        node.record = node.record._replace(url=url)

    def put(self, agent: Agent) -> Agent | None:
        """Add or replace an agent. Return its previous entry."""
        node = self._node(agent.node_id)
        before = node.agents.get(agent.agent_id)
        node.agents[agent.agent_id] = agent
        node.online += agent.is_online - (before is not None and before.is_online)
        return before

    def put_node(self, record: AgentNode) -> None:
        """Add or replace a node, but keep a newer heartbeat."""
        node = self._node(record.node_id)
        newest = node.record.last_heartbeat
        if newest is not None and newest > (record.last_heartbeat or 0):
            record = record._replace(last_heartbeat=newest, heartbeat_sent_at=node.record.heartbeat_sent_at)
        node.record = record

    def record_heartbeat(self, node_id: str, at_ms: int, sent_at: int) -> None:
        """Record a heartbeat of a node. It keeps all agents online that send none of their own."""
        node = self._node(node_id)
        if at_ms >= (node.record.last_heartbeat or 0):
            node.record = node.record._replace(last_heartbeat=at_ms, heartbeat_sent_at=sent_at, silent_since=None)

    def remove(self, address: AgentAddress) -> None:
        node = self._nodes.get(address.node_id)
        if node is not None:
            agent = node.agents.pop(address.agent_id, None)
            node.online -= agent is not None and agent.is_online

    def intern(self, value: T) -> T:
        """The same object for equal values. Most agents share few different values."""
        if len(self._interned) >= MAX_INTERNED:
            self._interned.clear()
        known = self._interned.setdefault(value, value)
        assert isinstance(known, type(value)), "equal values are of one type"
        return known

    def agent(self, address: AgentAddress) -> Agent | None:
        return self.agents_of(address.node_id).get(address.agent_id)

    def agents_of(self, node_id: str) -> Mapping[str, Agent]:
        """The node's agents by id, including those that are offline."""
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
        """How many agents of the node are online."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.online

    def last_seen(self, agent: Agent) -> int | None:
        """When the agent or its node was last heard from."""
        if agent.last_seen is not None:
            return agent.last_seen
        node = self.node(agent.node_id)
        return None if node is None else node.last_heartbeat

    def find_capable(self, wanted: Collection[str]) -> list[Agent]:
        """Online agents that have all of these capabilities, the available ones first."""
        found = [
            agent for agent in self.agents() if agent.is_online and not missing_capabilities(agent.capabilities, wanted)
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
            case InvalidAddress(reason):
                return Unknown(ErrorCode.INVALID_PAYLOAD, reason)
            case BareAgentId(agent_id):
                return self._route_id(agent_id, local_node)
            case AgentAddress():
                return self._route_address(parsed, local_node)

    def _route_id(self, agent_id: str, local_node: str) -> Route:
        """ "this node first, then the only node that has it; several or none: `AGENT_NOT_FOUND` with the
        candidates in metadata"."""
        at_home = self.agents_of(local_node).get(agent_id)
        if at_home is not None and at_home.is_online:
            return Local(at_home.address)
        candidates = self._with_id(agent_id)
        if not candidates:
            return Unknown(ErrorCode.AGENT_NOT_FOUND, f"No agent {agent_id} is known.")
        if len(candidates) > 1:
            reason = f"Several nodes have an agent {agent_id}: use one of the addresses."
            return Unknown(ErrorCode.AGENT_NOT_FOUND, reason, candidates[:MAX_CANDIDATES])
        return self._route_address(candidates[0], local_node)

    def _route_address(self, address: AgentAddress, local_node: str) -> Route:
        agent = self.agent(address)
        if agent is None:
            return self._not_known(address)
        if not agent.is_online:
            return self._offline_route(agent)
        if address.node_id == local_node:
            return Local(address)
        node = self.node(address.node_id)
        return Remote(address, None if node is None else node.url)

    def _not_known(self, address: AgentAddress) -> Unknown:
        node = self.node(address.node_id)
        if node is not None and node.is_blocked:
            return _cut_off(node)
        if node is not None:
            reason = f"The node {address.node_id} has no agent {address.agent_id}."
        else:
            reason = f"No node {address.node_id} is known."
        candidates = self._with_id(address.agent_id)[:MAX_CANDIDATES]
        return Unknown(ErrorCode.AGENT_NOT_FOUND, reason, candidates)

    def _offline_route(self, agent: Agent) -> Unknown:
        """Why an offline agent has no route. "routes end": if its node is silent, nothing is known about the
        agent."""
        node = self.node(agent.node_id)
        if agent.gone_reason == UNTRUSTED and node is not None and node.is_blocked:
            return _cut_off(node)
        if agent.is_lost and node is not None and node.silent_since is not None:
            reason = f"The node {agent.node_id} is offline: it sent no heartbeat for too long."
            return Unknown(ErrorCode.NODE_UNREACHABLE, reason)
        if agent.is_lost:
            reason = f"The agent {agent.address} is offline: it sent no heartbeat for too long."
        else:
            reason = f"The agent {agent.address} is offline: {agent.gone_reason}."
        return Unknown(ErrorCode.AGENT_NOT_FOUND, reason, self._with_id(agent.agent_id)[:MAX_CANDIDATES])

    def _with_id(self, agent_id: str) -> tuple[AgentAddress, ...]:
        """Look the id up in each node: an index by agent id would take half as much memory as the table."""
        found = (node.agents.get(agent_id) for node in self._nodes.values())
        return tuple(sorted(agent.address for agent in found if agent is not None and agent.is_online))

    def explain(self, target: Target, local_node: str, now_ms: int) -> str:
        """The decision and its reason, for people."""
        route = self.route(target, local_node)
        if isinstance(route, Unknown):
            meant = ", ".join(map(str, route.candidates))
            return f"{route.reason} ({route.code}){f' Known: {meant}.' if meant else ''}"
        agent = self.agent(route.address)
        assert agent is not None, "the route leads to it"
        status = f"{agent.status}{f' with {agent.current_task}' if agent.current_task else ''}"
        runtime = f", {agent.runtime}" if agent.runtime else ""
        details = f"{status}{runtime}, last seen {ago(self.last_seen(agent), now_ms)}."
        if isinstance(route, Local):
            return f"{route.address} is an agent of this node: {details}"
        url = f"at {route.url}" if route.url else "by server discovery"
        return f"{route.address} is on another node, which is reached {url}: {details}"


def _cut_off(node: AgentNode) -> Unknown:
    return Unknown(ErrorCode.NODE_UNREACHABLE, f"This node does not exchange agents with {node.node_id}.")
