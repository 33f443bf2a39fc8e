"""Updates of agents, independent of the protocol, and how they change what is known.

"heartbeat, registered and status are taken only if newer than the last of that agent and at most five minutes
ahead". Many clocks have a resolution of seconds, so an update with an equal timestamp counts as newer; only
to bring an agent back online it must be strictly newer. Whether the sender may update the agent is checked
before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.agents.address import AgentAddress, is_unicode
from bridge.agents.agent import Agent, AgentNode, AgentStatus, Capabilities

MAX_CLOCK_AHEAD_MS: Final = 5 * 60_000
MAX_TEXT_LENGTH: Final = 256
"""Characters of a runtime's name, a reason or a task's id."""
SHUTDOWN: Final = "shutdown"


@dataclass(frozen=True, slots=True)
class Registration:
    """The agent was registered. `sends_heartbeats`: the agent sends heartbeats of its own; otherwise it is
    online as long as its node is."""

    address: AgentAddress
    connector: str
    runtime: str
    capabilities: Capabilities
    sent_at: int
    sends_heartbeats: bool = False


@dataclass(frozen=True, slots=True)
class Unregistration:
    address: AgentAddress
    reason: str
    sent_at: int


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The agent's status has changed. `from_tasks`: the task service derived the status from the agent's
    tasks. That does not show that the agent is alive: a task may fail because its agent does not respond."""

    address: AgentAddress
    status: AgentStatus
    current_task: str | None
    sent_at: int
    from_tasks: bool = False


@dataclass(frozen=True, slots=True)
class AgentHeartbeat:
    """A heartbeat of one agent."""

    address: AgentAddress
    status: AgentStatus
    sent_at: int


@dataclass(frozen=True, slots=True)
class NodeHeartbeat:
    """A heartbeat of a node for its agents. `statuses` None: for the same agents as before, with the same
    statuses."""

    node_id: str
    sent_at: int
    statuses: Mapping[str, AgentStatus] | None = None


@dataclass(frozen=True, slots=True)
class ReportedByNode:
    """A node's heartbeat includes an agent that sent its own heartbeats, was offline, or has another
    status."""

    address: AgentAddress
    status: AgentStatus
    sent_at: int


@dataclass(frozen=True, slots=True)
class MissingFromHeartbeat:
    """A node's heartbeat no longer includes an agent that the previous one did."""

    address: AgentAddress
    last_seen: int


AgentUpdate: TypeAlias = (
    Registration | Unregistration | StatusUpdate | AgentHeartbeat | ReportedByNode | MissingFromHeartbeat
)
"""An update of one agent."""
Update: TypeAlias = Registration | Unregistration | StatusUpdate | AgentHeartbeat | NodeHeartbeat


@dataclass(frozen=True, slots=True)
class Updated:
    """The update was applied. `agent` is unchanged if the update says nothing new."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class HeartbeatRecorded:
    """The heartbeat of a node was recorded. `unknown` are the ids in it that were never registered."""

    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StaleUpdate:
    """A newer update is known, or the timestamp is in the future."""

    reason: str


@dataclass(frozen=True, slots=True)
class MalformedUpdate:
    """The update contains text that cannot be stored or shown."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnknownAgent:
    """The agent was never registered."""

    address: AgentAddress


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The node has too many agents, or there are too many nodes."""

    what: str


UpdateOutcome: TypeAlias = Updated | HeartbeatRecorded | StaleUpdate | MalformedUpdate | UnknownAgent | LimitReached


def apply_update(known: Agent | None, node: AgentNode | None, update: AgentUpdate, now_ms: int) -> UpdateOutcome:
    """Apply an update to an agent. `node` is the agent's node."""
    malformed = _malformed(update)
    if malformed is not None:
        return malformed
    if not isinstance(update, MissingFromHeartbeat):
        stale = _stale(known, node, update, now_ms)
        if stale is not None:
            named = None if known is None else _with_current_task(known, update)
            return stale if named is None else Updated(named)
    if isinstance(update, Registration):
        return Updated(_registered(known, update, now_ms))
    if known is None:
        return UnknownAgent(update.address)
    return Updated(_apply_known(known, node, update, now_ms))


def _malformed(update: AgentUpdate) -> MalformedUpdate | None:
    match update:
        case Registration(_, connector, runtime):
            texts: tuple[str | None, ...] = (connector, runtime)
        case Unregistration(_, reason):
            texts = (reason,)
        case StatusUpdate(_, _, current_task):
            texts = (current_task,)
        case _:
            return None
    for text in texts:
        if text is not None and (len(text) > MAX_TEXT_LENGTH or "\0" in text or not is_unicode(text)):
            return MalformedUpdate(
                f"a name or a reason must have at most {MAX_TEXT_LENGTH} characters of Unicode without NUL"
            )
    return None


def _stale(known: Agent | None, node: AgentNode | None, update: AgentUpdate, now_ms: int) -> StaleUpdate | None:
    assert not isinstance(update, MissingFromHeartbeat), "it has no timestamp of its own"
    if not 0 <= update.sent_at <= now_ms + MAX_CLOCK_AHEAD_MS:
        return StaleUpdate("its timestamp is more than five minutes ahead or before 1970")
    if known is None:
        return None
    last = known.sent_at
    if known.last_seen is None and isinstance(update, AgentHeartbeat):
        # The node has reported the agent since. Other updates say more than a node's heartbeat does and may
        # have been delayed, so they are compared with the agent's last update only.
        last = max(last, (node and node.heartbeat_sent_at) or 0)
    if update.sent_at < last:
        return StaleUpdate("a newer update of the agent is known")
    if not known.is_online and (update.sent_at == last or _is_derived(update)):
        return StaleUpdate("the agent has gone offline since")
    return None


def _is_derived(update: AgentUpdate) -> bool:
    return isinstance(update, StatusUpdate) and update.from_tasks


def _with_current_task(known: Agent, update: AgentUpdate) -> Agent | None:
    """The agent with its task's id added, if a heartbeat has already reported it busy."""
    if (
        isinstance(update, StatusUpdate)
        and known.is_online
        and known.status is update.status is AgentStatus.BUSY
        and known.current_task is None
        and update.current_task is not None
    ):
        return known._replace(current_task=update.current_task)
    return None


def _registered(known: Agent | None, update: Registration, now_ms: int) -> Agent:
    """ "last writer wins", here for one address. An agent that is online keeps its status: nodes send all
    their registrations to each new peer."""
    was_online = known is not None and known.is_online
    return Agent(
        agent_id=update.address.agent_id,
        node_id=update.address.node_id,
        connector=update.connector,
        runtime=update.runtime,
        capabilities=update.capabilities,
        status=known.status if known is not None and was_online else AgentStatus.IDLE,
        current_task=known.current_task if known is not None and was_online else None,
        registered_at=known.registered_at if known is not None and was_online else now_ms,
        sent_at=update.sent_at,
        last_seen=now_ms if update.sends_heartbeats else None,
    )


def _apply_known(
    known: Agent,
    node: AgentNode | None,
    update: Unregistration | StatusUpdate | AgentHeartbeat | ReportedByNode | MissingFromHeartbeat,
    now_ms: int,
) -> Agent:
    match update:
        case Unregistration(_, reason, sent_at):
            return _offline(known, reason, sent_at, now_ms)
        case (
            StatusUpdate(_, AgentStatus.SHUTDOWN, _, sent_at)
            | AgentHeartbeat(_, AgentStatus.SHUTDOWN, sent_at)
            | ReportedByNode(_, AgentStatus.SHUTDOWN, sent_at)
        ):
            # "any —shutdown→ shutdown": the agent is offline, whether or not it also unregisters.
            return _offline(known, SHUTDOWN, sent_at, now_ms)
        case StatusUpdate(_, status, current_task, sent_at):
            seen = known.last_seen if _is_derived(update) else _last_seen(known, node, now_ms)
            return _online(known, seen, status, current_task, sent_at)
        case AgentHeartbeat(_, status, sent_at):
            return _online(known, _last_seen(known, node, now_ms), status, _current_task(known, status), sent_at)
        case ReportedByNode(_, status, sent_at):
            return _online(known, None, status, _current_task(known, status), sent_at)
        case MissingFromHeartbeat(_, last_seen):
            return known._replace(last_seen=last_seen) if known.last_seen is None else known


def _online(known: Agent, last_seen: int | None, status: AgentStatus, current_task: str | None, sent_at: int) -> Agent:
    """The agent online again: it sent an update."""
    return known._replace(
        status=status, current_task=current_task, sent_at=sent_at, last_seen=last_seen, gone_at=None, gone_reason=None
    )


def _offline(known: Agent, reason: str, sent_at: int, now_ms: int) -> Agent:
    if not known.is_online:
        return known._replace(sent_at=sent_at)
    return known._replace(
        status=AgentStatus.SHUTDOWN, current_task=None, sent_at=sent_at, gone_at=now_ms, gone_reason=reason
    )


def _last_seen(known: Agent, node: AgentNode | None, now_ms: int) -> int | None:
    """The new `last_seen`. None if the node reports the agent in its heartbeats: nodes may send both."""
    spoken_for = (
        known.last_seen is None
        and known.is_online
        and node is not None
        and node.last_heartbeat is not None
        and node.silent_since is None
    )
    return None if spoken_for else now_ms


def _current_task(known: Agent, status: AgentStatus) -> str | None:
    """The task's id, which heartbeats do not contain."""
    return known.current_task if status is AgentStatus.BUSY else None


# ---- heartbeats of nodes -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeartbeatDifferences:
    """Differences between a node's heartbeat and the known agents. `unknown` are ids."""

    updates: tuple[ReportedByNode | MissingFromHeartbeat, ...]
    unknown: tuple[str, ...]


def compare_heartbeat(
    node: AgentNode | None, agents: Mapping[str, Agent], update: NodeHeartbeat, now_ms: int
) -> HeartbeatDifferences | StaleUpdate:
    """Compare a node's heartbeat with its known agents. Usually nothing differs, which is cheap."""
    if not 0 <= update.sent_at <= now_ms + MAX_CLOCK_AHEAD_MS:
        return StaleUpdate("its timestamp is more than five minutes ahead or before 1970")
    before = None if node is None else node.heartbeat_sent_at
    if before is not None and update.sent_at <= before:
        return StaleUpdate("a newer heartbeat of the node is known")
    if update.statuses is None:
        return HeartbeatDifferences((), ())
    found: list[ReportedByNode | MissingFromHeartbeat] = []
    unknown: list[str] = []
    for agent_id, status in update.statuses.items():
        agent = agents.get(agent_id)
        if agent is None:
            unknown.append(agent_id)
        elif agent.gone_at is not None:
            if status is not AgentStatus.SHUTDOWN and update.sent_at > agent.sent_at:
                found.append(ReportedByNode(agent.address, status, update.sent_at))
        elif (
            agent.status is not status or agent.last_seen is not None
        ) and update.sent_at >= agent.sent_at:  # otherwise a newer update is known
            found.append(ReportedByNode(agent.address, status, update.sent_at))
    if len(update.statuses) - len(unknown) == len(agents):
        return HeartbeatDifferences(tuple(found), tuple(unknown))  # every known agent is in the heartbeat
    last_seen = now_ms if node is None or node.last_heartbeat is None else node.last_heartbeat
    for agent_id in agents.keys() - update.statuses.keys():
        agent = agents[agent_id]
        if agent.gone_at is None and agent.last_seen is None:
            found.append(MissingFromHeartbeat(agent.address, last_seen))
    return HeartbeatDifferences(tuple(found), tuple(unknown))
