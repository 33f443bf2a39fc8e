"""Applies updates of agents to the database: locks the rows, decides, writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentNode, AgentStatus
from bridge.agents.routing import AgentRoutingTable
from bridge.agents.updates import (
    AgentUpdate,
    HeartbeatRecorded,
    LimitReached,
    NodeHeartbeat,
    Registration,
    StaleUpdate,
    Update,
    Updated,
    UpdateOutcome,
    apply_update,
    compare_heartbeat,
)
from storage.agents import agents
from storage.agents.agents import AgentRow
from storage.database import Connection


@dataclass(frozen=True, slots=True)
class RegistrarLimits:
    """Bounds that no well-behaved node reaches. Each agent takes a few hundred bytes in every process."""

    agents_per_node: int = 100_000
    nodes: int = 10_000


@dataclass(slots=True)
class AppliedUpdates:
    """The outcome of each update, and what `RoutingTable.committed` does after the commit."""

    outcomes: list[UpdateOutcome] = field(default_factory=list)
    heartbeats: list[NodeHeartbeat] = field(default_factory=list)
    has_changed: bool = False


class AgentRegistrar:
    """`table` is the memory of this process, which may be slightly older than the database. It is only
    read."""

    def __init__(self, table: AgentRoutingTable, limits: RegistrarLimits) -> None:
        self._table = table
        self._limits = limits

    async def apply(self, connection: Connection, updates: Sequence[Update], now_ms: int) -> AppliedUpdates:
        """Apply updates in the caller's transaction: heartbeats of nodes first, the others in their order."""
        applied = AppliedUpdates()
        await self._add_nodes(connection, updates, now_ms)
        heartbeats = [update for update in updates if isinstance(update, NodeHeartbeat)]
        node_outcomes, derived = await self._apply_node_heartbeats(connection, heartbeats, now_ms, applied)
        agent_updates = [*derived, *(update for update in updates if not isinstance(update, NodeHeartbeat))]
        agent_outcomes = await self._apply_agent_updates(connection, agent_updates, now_ms, applied)
        outcomes = iter(agent_outcomes[len(derived) :])
        nodes = iter(node_outcomes)
        applied.outcomes = [next(nodes) if isinstance(update, NodeHeartbeat) else next(outcomes) for update in updates]
        return applied

    def agent_of(self, row: AgentRow) -> Agent:
        """The agent of a database row. Values that many agents share are interned."""
        intern = self._table.intern
        return Agent(
            row.agent_id,
            intern(row.node_id),
            intern(row.connector),
            intern(row.runtime),
            intern(tuple(row.capabilities)),
            AgentStatus(row.status),
            *row[6:],
        )

    # -- nodes --

    async def _add_nodes(self, connection: Connection, updates: Sequence[Update], now_ms: int) -> None:
        """Add rows for new nodes. From now on, heartbeats are expected from nodes whose agents send none of
        their own."""
        mentioned = {_node_of(update) for update in updates if isinstance(update, Registration | NodeHeartbeat)}
        new = {node_id for node_id in mentioned if not self._is_known_node(node_id)}
        room = max(0, self._limits.nodes - len(self._table.nodes()))
        if new:
            await agents.insert_nodes(connection, sorted(new)[:room], now_ms)
        with_node = {
            _node_of(update) for update in updates if isinstance(update, Registration) and not update.sends_heartbeats
        }
        silent = {node_id for node_id in with_node if not self._sends_heartbeats(node_id)}
        if silent:
            await agents.start_heartbeat_monitoring(connection, sorted(silent), now_ms)

    def _is_known_node(self, node_id: str) -> bool:
        node = self._table.node(node_id)
        return node is not None and node.first_seen_at > 0

    def _sends_heartbeats(self, node_id: str) -> bool:
        node = self._table.node(node_id)
        return node is not None and node.last_heartbeat is not None and node.silent_since is None

    async def _apply_node_heartbeats(
        self, connection: Connection, heartbeats: Sequence[NodeHeartbeat], now_ms: int, applied: AppliedUpdates
    ) -> tuple[list[UpdateOutcome], list[AgentUpdate]]:
        if not heartbeats:
            return [], []
        rows = await agents.lock_nodes(connection, {heartbeat.node_id for heartbeat in heartbeats})
        nodes = {row.node_id: AgentNode(*row) for row in rows}
        outcomes: list[UpdateOutcome] = []
        derived: list[AgentUpdate] = []
        for heartbeat in heartbeats:
            node = nodes.get(heartbeat.node_id)
            if node is None:
                outcomes.append(LimitReached("nodes"))
                continue
            differences = compare_heartbeat(node, self._table.agents_of(heartbeat.node_id), heartbeat, now_ms)
            if isinstance(differences, StaleUpdate):
                outcomes.append(differences)
                continue
            await agents.write_heartbeat(connection, heartbeat.node_id, now_ms, heartbeat.sent_at)
            nodes[heartbeat.node_id] = node._replace(
                last_heartbeat=now_ms, heartbeat_sent_at=heartbeat.sent_at, silent_since=None
            )
            applied.has_changed |= node.silent_since is not None or node.last_heartbeat is None
            applied.heartbeats.append(heartbeat)
            derived += differences.updates
            outcomes.append(HeartbeatRecorded(differences.unknown))
        return outcomes, derived

    # -- agents --

    async def _apply_agent_updates(
        self, connection: Connection, updates: Sequence[AgentUpdate], now_ms: int, applied: AppliedUpdates
    ) -> list[UpdateOutcome]:
        if not updates:
            return []
        keys = {(update.address.node_id, update.address.agent_id) for update in updates}
        rows = await agents.lock_agents(connection, keys)
        before = {(row.node_id, row.agent_id): self.agent_of(row) for row in rows}
        known = dict(before)
        counts: dict[str, int] = {}
        outcomes: list[UpdateOutcome] = []
        for update in updates:
            key = update.address.node_id, update.address.agent_id
            outcome = apply_update(known.get(key), self._table.node(key[0]), update, now_ms)
            if isinstance(outcome, Updated):
                if key not in known and not self._has_room(update.address, counts):
                    outcome = LimitReached("agents")
                else:
                    known[key] = outcome.agent
            outcomes.append(outcome)
        changed = [agent for key, agent in known.items() if agent != before.get(key)]
        await self._write(connection, changed, before, applied)
        return outcomes

    def _has_room(self, address: AgentAddress, counts: dict[str, int]) -> bool:
        """Whether the node may have one more agent. Agents that are offline count, because they take as much
        memory."""
        node_id = address.node_id
        has = counts.setdefault(node_id, len(self._table.agents_of(node_id)))
        if has >= self._limits.agents_per_node or (not has and not self._may_have_agents(node_id)):
            return False
        counts[node_id] += 1
        return True

    def _may_have_agents(self, node_id: str) -> bool:
        return self._is_known_node(node_id) or len(self._table.nodes()) < self._limits.nodes

    async def _write(
        self,
        connection: Connection,
        changed: Iterable[Agent],
        before: dict[tuple[str, str], Agent],
        applied: AppliedUpdates,
    ) -> None:
        written, touched = [], []
        for agent in changed:
            known = before.get((agent.node_id, agent.agent_id))
            if known is not None and _is_only_newer(known, agent):
                touched.append((agent.node_id, agent.agent_id, agent.sent_at, agent.last_seen))
            else:
                written.append(_row_of(agent))
        await agents.write_agents(connection, written)
        await agents.touch_agents(connection, touched)
        applied.has_changed |= bool(written)


def _node_of(update: Registration | NodeHeartbeat) -> str:
    return update.node_id if isinstance(update, NodeHeartbeat) else update.address.node_id


def _is_only_newer(before: Agent, after: Agent) -> bool:
    """Whether only timestamps have changed, so that no listener needs a notification."""
    same_kind = (before.last_seen is None) == (after.last_seen is None)
    return same_kind and before._replace(sent_at=after.sent_at, last_seen=after.last_seen) == after


def _row_of(agent: Agent) -> AgentRow:
    return AgentRow(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        connector=agent.connector,
        runtime=agent.runtime,
        capabilities=agent.capabilities,
        status=agent.status.value,
        current_task=agent.current_task,
        registered_at=agent.registered_at,
        sent_at=agent.sent_at,
        last_seen=agent.last_seen,
        gone_at=agent.gone_at,
        gone_reason=agent.gone_reason,
    )
