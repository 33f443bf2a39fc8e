"""What is said of agents, whatever the protocol, and what becomes of what is known.

"heartbeat, registered and status are taken only if newer than the last of that agent and at most five
minutes ahead". Many clocks show whole seconds, so a word of the same time counts as newer; only to bring back
an agent that is gone it must be newer indeed. Who may speak for an agent is decided before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.agents.address import AgentAddress, is_unicode
from bridge.agents.agent import Agent, AgentNode, AgentStatus, Capabilities

MOST_AHEAD_MS: Final = 5 * 60_000
LONGEST_TEXT: Final = 256
"""Characters of a runtime's name, a reason, a task's id."""
SHUTDOWN: Final = "shutdown"


@dataclass(frozen=True, slots=True)
class Registered:
    """`by_itself`: it sends heartbeats of its own, and does not live and die with its node."""

    address: AgentAddress
    connector: str
    runtime: str
    capabilities: Capabilities
    sent_at: int
    by_itself: bool = False


@dataclass(frozen=True, slots=True)
class Unregistered:
    address: AgentAddress
    reason: str
    sent_at: int


@dataclass(frozen=True, slots=True)
class StatusSaid:
    """`of_its_tasks`: concluded from what it was given to do. That is no sign of life: a task may fail
    because its agent is silent."""

    address: AgentAddress
    status: AgentStatus
    current_task: str | None
    sent_at: int
    of_its_tasks: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Of one agent."""

    address: AgentAddress
    status: AgentStatus
    sent_at: int


@dataclass(frozen=True, slots=True)
class NodeHeartbeat:
    """Of a node, with all agents that it speaks for. None: those that it has spoken for before, all alike."""

    node_id: str
    sent_at: int
    statuses: Mapping[str, AgentStatus] | None = None


@dataclass(frozen=True, slots=True)
class SpokenFor:
    """The heartbeat of its node has an agent that was heard from by itself, or was gone, or did something
    else."""

    address: AgentAddress
    status: AgentStatus
    sent_at: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The heartbeat of its node no longer has the agent, which was in the one before."""

    address: AgentAddress
    last_seen: int


AgentNews: TypeAlias = Registered | Unregistered | StatusSaid | Heartbeat | SpokenFor | LeftOut
"""Of one agent."""
News: TypeAlias = Registered | Unregistered | StatusSaid | Heartbeat | NodeHeartbeat


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known now. `agent` is what it was before when nothing has changed."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class Heard:
    """The heartbeat of a node. `unknown` are the ids of agents in it that were never registered."""

    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stale:
    """Something newer is known, or it claims to come from the future."""

    reason: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """It holds what nobody can keep or show."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Of an agent that was never registered nothing can be said."""

    address: AgentAddress


@dataclass(frozen=True, slots=True)
class TooMany:
    """Agents of a node, or nodes, are as many as there may be."""

    what: str


Verdict: TypeAlias = Taken | Heard | Stale | Malformed | NotKnown | TooMany


def decide(known: Agent | None, node: AgentNode | None, news: AgentNews, now_ms: int) -> Verdict:
    """What becomes of an agent. `node` is its own."""
    malformed = _malformed(news)
    if malformed is not None:
        return malformed
    if not isinstance(news, LeftOut):
        stale = _stale(known, node, news, now_ms)
        if stale is not None:
            named = None if known is None else _named_task(known, news)
            return stale if named is None else Taken(named)
    if isinstance(news, Registered):
        return Taken(_registered(known, news, now_ms))
    if known is None:
        return NotKnown(news.address)
    return Taken(_told(known, node, news, now_ms))


def _malformed(news: AgentNews) -> Malformed | None:
    match news:
        case Registered(_, connector, runtime):
            texts: tuple[str | None, ...] = (connector, runtime)
        case Unregistered(_, reason):
            texts = (reason,)
        case StatusSaid(_, _, current_task):
            texts = (current_task,)
        case _:
            return None
    for text in texts:
        if text is not None and (len(text) > LONGEST_TEXT or "\0" in text or not is_unicode(text)):
            return Malformed(
                f"a name or a reason has at most {LONGEST_TEXT} characters of Unicode, and no NUL"
            )
    return None


def _stale(known: Agent | None, node: AgentNode | None, news: AgentNews, now_ms: int) -> Stale | None:
    assert not isinstance(news, LeftOut), "it is a conclusion, and nobody has said it"
    if not 0 <= news.sent_at <= now_ms + MOST_AHEAD_MS:
        return Stale("its time lies more than five minutes ahead, or before 1970")
    if known is None:
        return None
    last = known.sent_at
    if known.last_seen is None and isinstance(news, Heartbeat):
        # The node has spoken for it since. Everything else that is said of an agent says more than its node's
        # heartbeat does, and may have been overtaken by it.
        last = max(last, (node and node.heartbeat_sent_at) or 0)
    if news.sent_at < last:
        return Stale("something newer is known of the agent")
    if not known.is_here and (news.sent_at == last or _is_concluded(news)):
        return Stale("the agent has gone since")
    return None


def _is_concluded(news: AgentNews) -> bool:
    return isinstance(news, StatusSaid) and news.of_its_tasks


def _named_task(known: Agent, news: AgentNews) -> Agent | None:
    """A heartbeat has told already that the agent is busy; this tells with what."""
    if (
        isinstance(news, StatusSaid)
        and known.is_here
        and known.status is news.status is AgentStatus.BUSY
        and known.current_task is None
        and news.current_task is not None
    ):
        return known._replace(current_task=news.current_task)
    return None


def _registered(known: Agent | None, news: Registered, now_ms: int) -> Agent:
    """ "last writer wins", but of one address. An agent that was there goes on with what it does: nodes send
    their whole list to whoever is new."""
    still_there = known is not None and known.is_here
    return Agent(
        agent_id=news.address.agent_id,
        node_id=news.address.node_id,
        connector=news.connector,
        runtime=news.runtime,
        capabilities=news.capabilities,
        status=known.status if known is not None and still_there else AgentStatus.IDLE,
        current_task=known.current_task if known is not None and still_there else None,
        registered_at=known.registered_at if known is not None and still_there else now_ms,
        sent_at=news.sent_at,
        last_seen=now_ms if news.by_itself else None,
    )


def _told(
    known: Agent,
    node: AgentNode | None,
    news: Unregistered | StatusSaid | Heartbeat | SpokenFor | LeftOut,
    now_ms: int,
) -> Agent:
    match news:
        case Unregistered(_, reason, sent_at):
            return _gone(known, reason, sent_at, now_ms)
        case (
            StatusSaid(_, AgentStatus.SHUTDOWN, _, sent_at)
            | Heartbeat(_, AgentStatus.SHUTDOWN, sent_at)
            | SpokenFor(_, AgentStatus.SHUTDOWN, sent_at)
        ):
            # "any —shutdown→ shutdown": it is over, and whether it also says goodbye does not matter.
            return _gone(known, SHUTDOWN, sent_at, now_ms)
        case StatusSaid(_, status, current_task, sent_at):
            seen = known.last_seen if _is_concluded(news) else _seen(known, node, now_ms)
            return _here(known, seen, status, current_task, sent_at)
        case Heartbeat(_, status, sent_at):
            return _here(known, _seen(known, node, now_ms), status, _task(known, status), sent_at)
        case SpokenFor(_, status, sent_at):
            return _here(known, None, status, _task(known, status), sent_at)
        case LeftOut(_, last_seen):
            return known._replace(last_seen=last_seen) if known.last_seen is None else known


def _here(
    known: Agent, last_seen: int | None, status: AgentStatus, current_task: str | None, sent_at: int
) -> Agent:
    """It speaks, so it is there, whatever was thought of it."""
    return known._replace(
        status=status,
        current_task=current_task,
        sent_at=sent_at,
        last_seen=last_seen,
        gone_at=None,
        gone_reason=None,
    )


def _gone(known: Agent, reason: str, sent_at: int, now_ms: int) -> Agent:
    if not known.is_here:
        return known._replace(sent_at=sent_at)
    return known._replace(
        status=AgentStatus.SHUTDOWN, current_task=None, sent_at=sent_at, gone_at=now_ms, gone_reason=reason
    )


def _seen(known: Agent, node: AgentNode | None, now_ms: int) -> int | None:
    """One whose node speaks for it stays with its node: nodes may send both."""
    spoken_for = (
        known.last_seen is None
        and known.is_here
        and node is not None
        and node.last_heartbeat is not None
        and node.silent_since is None
    )
    return None if spoken_for else now_ms


def _task(known: Agent, status: AgentStatus) -> str | None:
    """Heartbeats say that an agent is busy, and not with what."""
    return known.current_task if status is AgentStatus.BUSY else None


# ---- the heartbeat of a node -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Differences:
    """Between what a node says of its agents and what is known of them; `unknown` are ids."""

    news: tuple[SpokenFor | LeftOut, ...]
    unknown: tuple[str, ...]


def decide_node(
    node: AgentNode | None, agents: Mapping[str, Agent], news: NodeHeartbeat, now_ms: int
) -> Differences | Stale:
    """A heartbeat is mostly what was known before: only what is new costs something."""
    if not 0 <= news.sent_at <= now_ms + MOST_AHEAD_MS:
        return Stale("its time lies more than five minutes ahead, or before 1970")
    before = None if node is None else node.heartbeat_sent_at
    if before is not None and news.sent_at <= before:
        return Stale("a newer heartbeat of the node is known")
    if news.statuses is None:
        return Differences((), ())
    found: list[SpokenFor | LeftOut] = []
    unknown: list[str] = []
    for agent_id, status in news.statuses.items():
        agent = agents.get(agent_id)
        if agent is None:
            unknown.append(agent_id)
        elif agent.gone_at is not None:
            if status is not AgentStatus.SHUTDOWN and news.sent_at > agent.sent_at:
                found.append(SpokenFor(agent.address, status, news.sent_at))
        elif (
            agent.status is not status or agent.last_seen is not None
        ) and news.sent_at >= agent.sent_at:  # a newer word on it stands
            found.append(SpokenFor(agent.address, status, news.sent_at))
    if len(news.statuses) - len(unknown) == len(agents):
        return Differences(tuple(found), tuple(unknown))  # nobody is left out
    last_seen = now_ms if node is None or node.last_heartbeat is None else node.last_heartbeat
    for agent_id in agents.keys() - news.statuses.keys():
        agent = agents[agent_id]
        if agent.gone_at is None and agent.last_seen is None:
            found.append(LeftOut(agent.address, last_seen))
    return Differences(tuple(found), tuple(unknown))
