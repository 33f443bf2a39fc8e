"""The members of offices as agents of this node: what the routing table is to say of them, and which ids are
theirs alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.agent_news import News, Registered, StatusSaid, Unregistered
from bridge.agent_status import AgentStatus
from bridge.capability import LONGEST, MOST, Capabilities
from bridge.connectors.offices.office import AGENT, Member
from bridge.connectors.offices.office_room import member_of

CONNECTOR: Final = "offices"
RUNTIME: Final = "a2c-smcp"
READS_TASKS: Final = "task_execution"
"""What an Agent can that reads tasks: as agents are that need not say so."""
LEFT: Final = "it has left its office"


@dataclass(frozen=True, slots=True)
class Seat:
    """A member that is connected to this process. `tools` are those of a Computer, as far as they are
    known."""

    member: Member
    reads_tasks: bool = False
    tools: tuple[str, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        if self.member.role == AGENT:
            return (READS_TASKS,) if self.reads_tasks else ()
        return _names(self.tools)


@dataclass(frozen=True, slots=True)
class Told:
    """`taken` are addresses that other agents of this node have: those stay what they are."""

    news: tuple[Registered | Unregistered, ...]
    taken: tuple[AgentAddress, ...] = ()


def what_to_tell(
    seats: Mapping[AgentAddress, Seat],
    gone: Iterable[AgentAddress],
    known: Mapping[AgentAddress, Agent | None],
    now_ms: int,
) -> Told:
    """So that the routing table has who is there, and has no more who was there and has `gone`. `known` is
    what it says of each of them."""
    news: list[Registered | Unregistered] = []
    taken: list[AgentAddress] = []
    for address in gone:
        agent = known.get(address)
        if address not in seats and agent is not None and _is_ours(agent) and agent.is_here:
            news.append(Unregistered(address, LEFT, max(now_ms, agent.said_at)))
    for address, seat in seats.items():
        agent = known.get(address)
        if agent is not None and agent.is_here and not _is_ours(agent):
            taken.append(address)
        elif (
            agent is None
            or not agent.is_here
            or (agent.runtime, agent.capabilities) != (RUNTIME, seat.capabilities)
        ):
            # A clock that was put back must not make it be taken for old news.
            said_at = now_ms if agent is None else max(now_ms, agent.said_at + 1)
            news.append(Registered(address, CONNECTOR, RUNTIME, seat.capabilities, said_at))
    return Told(tuple(news), tuple(taken))


def idle_again(agents: Iterable[Agent], now_ms: int) -> list[News]:
    """The process in which they were at work has ended."""
    return [
        StatusSaid(agent.address, AgentStatus.IDLE, None, max(now_ms, agent.said_at + 1))
        for agent in agents
        if agent.is_here and _is_ours(agent) and agent.status is not AgentStatus.IDLE
    ]


def all_gone(agents: Iterable[Agent], now_ms: int) -> list[News]:
    """Where no offices are served nobody is in one, whatever a process before this one has left."""
    return [
        Unregistered(agent.address, LEFT, max(now_ms, agent.said_at))
        for agent in agents
        if agent.is_here and _is_ours(agent)
    ]


def reserved(address: AgentAddress) -> str | None:
    """Why nobody else can be called so: a sentence. None if it is no member's address."""
    found = member_of(address)
    if found is None:
        return None
    return (
        f"{address.agent_id} is the address of {found[1]} in the office {found[0]}: attach under an id"
        " without a slash."
    )


def _is_ours(agent: Agent) -> bool:
    return agent.connector == CONNECTOR


def _names(tools: Iterable[str]) -> Capabilities:
    """As many as an agent may have, each once."""
    names: dict[str, str] = {}
    for tool in tools:
        if len(names) < MOST and 0 < len(tool) <= LONGEST and tool.isprintable() and tool == tool.strip():
            names.setdefault(tool.casefold(), tool)
    return tuple(names.values())
