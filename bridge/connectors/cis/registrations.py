"""What the rooms of this node say of its agents, and what they should say.

Each agent is one entry of a room's state: `io.cis.agent.registered`, or, newer than that,
`io.cis.agent.unregistered`. So whoever joins learns from the room itself who is there, and what is missing
after a kill is found by comparing.

When to answer a registration with the list of our own agents.

Agent federation 1.0.0, "Agent discovery": a node that hears of an agent of another may send the list of its
own. Two that both always do never stop. So: "once per peer when it first appears or was offline, at most once
a minute, so that the exchange ends after one round". What falls into that minute is answered at its end.

Times are milliseconds of any clock. What is remembered may be lost: then there is one round more.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridge.agents.agent import Agent, Capabilities
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.event_fields import LONGEST_RUNTIME
from bridge.connectors.cis.protocol.events import Registered, StatusUpdate, Unregistered
from bridge.connectors.cis.protocol.rooms import AgentRoom

MOVED = "moved"
"""The agent is there, and is no longer told of in this room."""
UNKNOWN_RUNTIME = "unknown"


class _Entry(NamedTuple):
    is_online: bool
    sent_at: int
    runtime: str = ""
    capabilities: Capabilities = ()


class Announcements:
    def __init__(self, rooms: Iterable[AgentRoom]) -> None:
        self._entries: dict[AgentRoom, dict[str, _Entry]] = {room: {} for room in rooms}

    def read(self, room: AgentRoom, event: Registered | Unregistered) -> None:
        """An entry of a room, in any order."""
        entries = self._entries[room]
        known = entries.get(event.agent_id)
        if isinstance(event, Registered):
            entry = _Entry(True, event.sent_at, event.runtime_type, event.capabilities)
            if known is not None and known.sent_at >= entry.sent_at:
                return
        else:
            entry = _Entry(False, event.sent_at)
            if known is not None and known.sent_at > entry.sent_at:
                return
        entries[event.agent_id] = entry

    def agents(self) -> set[str]:
        """The ids of those who are said to be there."""
        return {
            name for entries in self._entries.values() for name, entry in entries.items() if entry.is_online
        }

    def missing(
        self, agent: Agent, rooms: Collection[AgentRoom]
    ) -> list[tuple[AgentRoom, Registered | Unregistered]]:
        """What is to be said of an agent that is to be known in these rooms, if it is here at all: first that
        it is gone, where that is so. Who reads several rooms takes the newest word of them all."""
        known = [(room, entries.get(agent.agent_id)) for room, entries in self._entries.items()]
        wanted = set(rooms) if agent.is_online else set()
        gone = [
            (room, _unregistered(agent, entry))
            for room, entry in known
            if entry is not None and entry.is_online and room not in wanted
        ]
        times = [entry.sent_at for _, entry in known if entry is not None]
        newest = max([*times, *(event.sent_at for _, event in gone)], default=None)
        come = [
            (room, registered(agent, after=newest))
            for room, entry in known
            if room in wanted and (entry is None or not entry.is_online or _differ(entry, agent))
        ]
        return [*gone, *come]


def registered(agent: Agent, *, after: int | None = None) -> Registered:
    """Newer than what was said before, whatever the clock says."""
    sent_at = max(agent.sent_at, agent.registered_at)
    return Registered(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        runtime_type=_runtime(agent),
        capabilities=agent.capabilities,
        timestamp=timestamps.of(sent_at if after is None else max(sent_at, after + 1)),
    )


def status_update(agent: Agent) -> StatusUpdate:
    return StatusUpdate(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        status=agent.status,
        current_task=agent.current_task,
        timestamp=timestamps.of(agent.sent_at),
    )


def _unregistered(agent: Agent, entry: _Entry) -> Unregistered:
    sent_at = agent.sent_at if agent.gone_at is None else max(agent.gone_at, agent.sent_at)
    return Unregistered(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        reason=agent.gone_reason or MOVED,
        timestamp=timestamps.of(max(sent_at, entry.sent_at)),
    )


def _differ(entry: _Entry, agent: Agent) -> bool:
    said = registered(agent)
    return (entry.runtime, entry.capabilities) != (said.runtime_type, said.capabilities)


def _runtime(agent: Agent) -> str:
    """Other connectors call their runtimes as they like."""
    name = "".join(one for one in agent.runtime if one.isprintable())[:LONGEST_RUNTIME].strip()
    return name or UNKNOWN_RUNTIME


PAUSE_MS: Final = 60_000
MOST: Final = 10_000


@dataclass(slots=True)
class _Met:
    introduced_at: int
    is_lost: bool = False
    # It has come back, and the minute is not over.
    is_owed: bool = False


class Introductions:
    def __init__(self, most: int = MOST) -> None:
        assert most > 0, "somebody must be told apart"
        self._most = most
        # In the order of their last introduction.
        self._met: OrderedDict[str, _Met] = OrderedDict()

    def registered(self, peer: str, now: int) -> bool:
        """The peer has registered an agent. Whether to send it the list of ours now."""
        met = self._met.get(peer)
        if met is None:
            return self._meet(peer, now)
        if not met.is_lost or met.is_owed:
            return False
        if now < met.introduced_at + PAUSE_MS:
            met.is_owed = True
            return False
        return self._introduce(peer, now)

    def lost(self, peer: str) -> None:
        """The peer has been silent for too long, or has said that it goes."""
        met = self._met.get(peer)
        if met is not None:
            met.is_lost, met.is_owed = True, False

    def due(self, now: int) -> tuple[str, ...]:
        """The peers to which the list is to be sent now."""
        due = tuple(
            peer for peer, met in self._met.items() if met.is_owed and now >= met.introduced_at + PAUSE_MS
        )
        for peer in due:
            self._introduce(peer, now)
        return due

    def deadline(self) -> int | None:
        """When there is something to do next."""
        return next((met.introduced_at + PAUSE_MS for met in self._met.values() if met.is_owed), None)

    def __len__(self) -> int:
        return len(self._met)

    def _meet(self, peer: str, now: int) -> bool:
        if len(self._met) >= self._most:
            oldest = next(iter(self._met))
            if now < self._met[oldest].introduced_at + PAUSE_MS:
                # More new peers in a minute than can be remembered: whoever sends them does not get an
                # answer to each.
                return False
            del self._met[oldest]
        return self._introduce(peer, now)

    def _introduce(self, peer: str, now: int) -> bool:
        self._met[peer] = _Met(now)
        self._met.move_to_end(peer)
        return True
