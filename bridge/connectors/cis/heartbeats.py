"""Heartbeats between nodes: each node sends one EDU per interval, which covers all its agents.

    {"event_type": "io.cis.agent.heartbeat", "node_id": "kitchen.local", "timestamp": "…",
     "agents": {"idle": ["worker-1", "worker-2"], "busy": ["worker-3"]}}

Without `agents` it covers the same agents as the heartbeats before, with unchanged status: so a node with a
million agents can send one, too. The specification's heartbeat of a single agent is accepted as a PDU and as
an EDU.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from bridge.agents.address import agent_id_problem
from bridge.agents.agent import AgentStatus, parse_status
from bridge.agents.updates import AgentHeartbeat, NodeHeartbeat
from bridge.connectors.cis.protocol import content, event_fields, events
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from federation.matrix.canonical_json import encode

TYPE: Final = events.Heartbeat.TYPE

MAX_EDU_BYTES: Final = 8 * 1024 * 1024
"""A server accepts a transaction body of 200 × 64 KiB, of which 50 PDUs may fill a quarter."""


def edu_content(heartbeat: NodeHeartbeat) -> dict[str, Any]:
    """Return the content of one EDU. It must be one, because a newer EDU replaces a queued one. If the list
    of agents does not fit, it is left out: an agent's status is also sent as `status_update`."""
    summary: dict[str, Any] = {
        "event_type": TYPE,
        "node_id": heartbeat.node_id,
        "timestamp": event_fields.format_timestamp(event_fields.from_milliseconds(heartbeat.sent_at)),
    }
    if heartbeat.statuses is None:
        return summary
    agents: defaultdict[str, list[str]] = defaultdict(list)
    for agent_id, status in sorted(heartbeat.statuses.items()):
        agents[status.value].append(agent_id)
    listed = {**summary, "agents": dict(agents)}
    return listed if len(encode(listed)) <= MAX_EDU_BYTES else summary


def read_edu(
    edu_content: Mapping[str, Any], origin: str
) -> NodeHeartbeat | AgentHeartbeat | InvalidPayload | Forbidden:
    """Read a heartbeat from `origin`, the server that sent the EDU; it can only cover agents of that server.
    Malformed entries of its list are skipped."""
    if "agent_id" in edu_content or "payload" in edu_content:
        return _single(edu_content, origin)
    if edu_content.get("event_type", TYPE) != TYPE:
        return InvalidPayload("event_type", "is not the type of the event in which it stands")
    if edu_content.get("node_id") != origin:
        return Forbidden("The node_id does not name the peer that sent this.")
    text = edu_content.get("timestamp")
    time = event_fields.parse_timestamp(text) if isinstance(text, str) else None
    if time is None:
        return InvalidPayload("timestamp", "is not a time, as in 2026-02-08T10:30:00Z")
    agents = edu_content.get("agents")
    if agents is not None and not isinstance(agents, dict):
        return InvalidPayload("agents", "is not an object of lists")
    statuses = None if agents is None else _statuses(agents)
    return NodeHeartbeat(origin, event_fields.to_milliseconds(time), statuses)


def of_event(event: events.Heartbeat) -> AgentHeartbeat:
    """Convert the heartbeat of a single agent, from a room or from a published node."""
    return AgentHeartbeat(event.agent, event.status, event.sent_at)


def _single(edu_content: Mapping[str, Any], origin: str) -> AgentHeartbeat | InvalidPayload | Forbidden:
    event = content.read(TYPE, dict(edu_content))
    if isinstance(event, InvalidPayload):
        return event
    assert isinstance(event, events.Heartbeat), "content.read returns the type that it was given"
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
