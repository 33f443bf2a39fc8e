"""Takes in what is said of agents: loads what is known under the lock of its rows, decides, writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentNode, AgentStatus
from bridge.agents.news import (
    AgentNews,
    Heard,
    News,
    NodeHeartbeat,
    Registered,
    Stale,
    Taken,
    TooMany,
    Verdict,
    decide,
    decide_node,
)
from bridge.agents.routing import AgentRoutingTable
from storage.agents import agents
from storage.agents.agents import AgentRow
from storage.database import Connection


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """More than any honest node has: each agent takes a few hundred bytes in every process."""

    agents_of_node: int = 100_000
    nodes: int = 10_000


@dataclass(slots=True)
class Applied:
    """What became of each piece of news, and what has to follow the commit."""

    verdicts: list[Verdict] = field(default_factory=list)
    beats: list[NodeHeartbeat] = field(default_factory=list)
    has_changed: bool = False


class AgentIntake:
    """`table` is what the process knows, perhaps a moment behind the database. It is not written to."""

    def __init__(self, table: AgentRoutingTable, limits: IntakeLimits) -> None:
        self._table = table
        self._limits = limits

    async def apply(self, connection: Connection, news: Sequence[News], now_ms: int) -> Applied:
        """In the order in which it was said, but for heartbeats of nodes, which come first."""
        applied = Applied()
        await self._add_nodes(connection, news, now_ms)
        beats = [one for one in news if isinstance(one, NodeHeartbeat)]
        of_nodes, concluded = await self._hear_nodes(connection, beats, now_ms, applied)
        said = [*concluded, *(one for one in news if not isinstance(one, NodeHeartbeat))]
        of_agents = await self._hear_agents(connection, said, now_ms, applied)
        verdicts = iter(of_agents[len(concluded) :])
        nodes = iter(of_nodes)
        applied.verdicts = [next(nodes) if isinstance(one, NodeHeartbeat) else next(verdicts) for one in news]
        return applied

    def agent_of(self, row: AgentRow) -> Agent:
        """What many agents have in common is kept once."""
        shared = self._table.shared
        return Agent(
            row.agent_id,
            shared(row.node_id),
            shared(row.connector),
            shared(row.runtime),
            shared(tuple(row.capabilities)),
            AgentStatus(row.status),
            *row[6:],
        )

    # -- nodes --

    async def _add_nodes(self, connection: Connection, news: Sequence[News], now_ms: int) -> None:
        """Rows for nodes that are new. Those whose agents live with them are listened for from now on."""
        mentioned = {_node_of(one) for one in news if isinstance(one, Registered | NodeHeartbeat)}
        new = {node_id for node_id in mentioned if not self._is_known(node_id)}
        room = max(0, self._limits.nodes - len(self._table.nodes()))
        if new:
            await agents.insert_nodes(connection, sorted(new)[:room], now_ms)
        living = {_node_of(one) for one in news if isinstance(one, Registered) and not one.by_itself}
        begun = {node_id for node_id in living if not self._is_heard(node_id)}
        if begun:
            await agents.start_heartbeat_monitoring(connection, sorted(begun), now_ms)

    def _is_known(self, node_id: str) -> bool:
        node = self._table.node(node_id)
        return node is not None and node.first_seen_at > 0

    def _is_heard(self, node_id: str) -> bool:
        node = self._table.node(node_id)
        return node is not None and node.last_heartbeat is not None and node.silent_since is None

    async def _hear_nodes(
        self, connection: Connection, beats: Sequence[NodeHeartbeat], now_ms: int, applied: Applied
    ) -> tuple[list[Verdict], list[AgentNews]]:
        if not beats:
            return [], []
        rows = await agents.lock_nodes(connection, {beat.node_id for beat in beats})
        nodes = {row.node_id: AgentNode(*row) for row in rows}
        verdicts: list[Verdict] = []
        concluded: list[AgentNews] = []
        for beat in beats:
            node = nodes.get(beat.node_id)
            if node is None:
                verdicts.append(TooMany("nodes"))
                continue
            differences = decide_node(node, self._table.agents_of(beat.node_id), beat, now_ms)
            if isinstance(differences, Stale):
                verdicts.append(differences)
                continue
            await agents.write_heartbeat(connection, beat.node_id, now_ms, beat.sent_at)
            nodes[beat.node_id] = node._replace(
                last_heartbeat=now_ms, heartbeat_sent_at=beat.sent_at, silent_since=None
            )
            applied.has_changed |= node.silent_since is not None or node.last_heartbeat is None
            applied.beats.append(beat)
            concluded += differences.news
            verdicts.append(Heard(differences.unknown))
        return verdicts, concluded

    # -- agents --

    async def _hear_agents(
        self, connection: Connection, said: Sequence[AgentNews], now_ms: int, applied: Applied
    ) -> list[Verdict]:
        if not said:
            return []
        places = {(one.address.node_id, one.address.agent_id) for one in said}
        rows = await agents.lock_agents(connection, places)
        before = {(row.node_id, row.agent_id): self.agent_of(row) for row in rows}
        known = dict(before)
        counts: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for one in said:
            place = one.address.node_id, one.address.agent_id
            verdict = decide(known.get(place), self._table.node(place[0]), one, now_ms)
            if isinstance(verdict, Taken):
                if place not in known and not self._has_room(one.address, counts):
                    verdict = TooMany("agents")
                else:
                    known[place] = verdict.agent
            verdicts.append(verdict)
        changed = [agent for place, agent in known.items() if agent != before.get(place)]
        await self._write(connection, changed, before, applied)
        return verdicts

    def _has_room(self, address: AgentAddress, counts: dict[str, int]) -> bool:
        """Those that are gone count too: they take as much."""
        node_id = address.node_id
        has = counts.setdefault(node_id, len(self._table.agents_of(node_id)))
        if has >= self._limits.agents_of_node or (not has and not self._may_have_agents(node_id)):
            return False
        counts[node_id] += 1
        return True

    def _may_have_agents(self, node_id: str) -> bool:
        return self._is_known(node_id) or len(self._table.nodes()) < self._limits.nodes

    async def _write(
        self,
        connection: Connection,
        changed: Iterable[Agent],
        before: dict[tuple[str, str], Agent],
        applied: Applied,
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


def _node_of(news: Registered | NodeHeartbeat) -> str:
    return news.node_id if isinstance(news, NodeHeartbeat) else news.address.node_id


def _is_only_newer(before: Agent, after: Agent) -> bool:
    """Whether it was merely heard of: nobody who follows has to know."""
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
