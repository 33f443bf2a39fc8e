"""Heartbeats between nodes: one EDU for each node and interval, which speaks for all its agents.

    {"event_type": "io.cis.agent.heartbeat", "node_id": "kitchen.local", "timestamp": "…",
     "agents": {"idle": ["worker-1", "worker-2"], "busy": ["worker-3"]}}

Without `agents` it speaks for all that it has spoken for before, which do what they did: so that a node with
a million of them is alive too. The heartbeat of a single agent, as the specification has it, is understood as
a PDU and as an EDU.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from bridge.agents.address import agent_id_problem
from bridge.agents.agent import AgentStatus, parse_status
from bridge.agents.updates import AgentHeartbeat, NodeHeartbeat
from bridge.connectors.cis.protocol import content, events
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from federation.matrix.canonical_json import encode

TYPE: Final = events.Heartbeat.TYPE

MAX_EDU_BYTES: Final = 8 * 1024 * 1024
"""A server takes 200 × 64 KiB as the body of a transaction, of which 50 PDUs are a quarter."""


def edu_content(heartbeat: NodeHeartbeat) -> dict[str, Any]:
    """In one EDU, since a newer one takes the place of one that waits. Where the list is too long for that,
    it goes without: what an agent does is also said by its `status_update`."""
    said: dict[str, Any] = {
        "event_type": TYPE,
        "node_id": heartbeat.node_id,
        "timestamp": timestamps.write(timestamps.of(heartbeat.sent_at)),
    }
    if heartbeat.statuses is None:
        return said
    agents: defaultdict[str, list[str]] = defaultdict(list)
    for agent_id, status in sorted(heartbeat.statuses.items()):
        agents[status.value].append(agent_id)
    listed = {**said, "agents": dict(agents)}
    return listed if len(encode(listed)) <= MAX_EDU_BYTES else said


def read_edu(
    said: Mapping[str, Any], origin: str
) -> NodeHeartbeat | AgentHeartbeat | InvalidPayload | Forbidden:
    """`origin` is the server that sent the EDU: nobody's agents but its own live by it. An agent that cannot
    be read is left out, and the others stay."""
    if "agent_id" in said or "payload" in said:
        return _single(said, origin)
    if said.get("event_type", TYPE) != TYPE:
        return InvalidPayload("event_type", "is not the type of the event in which it stands")
    if said.get("node_id") != origin:
        return Forbidden("The node_id does not name the peer that sent this.")
    time = timestamps.read(said["timestamp"]) if isinstance(said.get("timestamp"), str) else None
    if time is None:
        return InvalidPayload("timestamp", "is not a time, as in 2026-02-08T10:30:00Z")
    agents = said.get("agents")
    if agents is not None and not isinstance(agents, dict):
        return InvalidPayload("agents", "is not an object of lists")
    statuses = None if agents is None else _statuses(agents)
    return NodeHeartbeat(origin, timestamps.milliseconds(time), statuses)


def of_event(event: events.Heartbeat) -> AgentHeartbeat:
    """Of a single agent: an event of a room, or of a published node."""
    return AgentHeartbeat(event.agent, event.status, event.sent_at)


def _single(said: Mapping[str, Any], origin: str) -> AgentHeartbeat | InvalidPayload | Forbidden:
    event = content.read(TYPE, dict(said))
    if isinstance(event, InvalidPayload):
        return event
    assert isinstance(event, events.Heartbeat), "it was read as one"
    if event.node_id != origin:
        return Forbidden("The node_id does not name the peer that sent this.")
    return of_event(event)


def _statuses(agents: Mapping[str, Any]) -> dict[str, AgentStatus]:
    statuses: dict[str, AgentStatus] = {}
    for name, agent_ids in agents.items():
        status = parse_status(name)
        if status is None or not isinstance(agent_ids, list):
            continue
        for agent_id in agent_ids:
            if isinstance(agent_id, str) and agent_id_problem(agent_id) is None:
                statuses.setdefault(agent_id, status)
    return statuses
