"""Decides which registrations are missing from this node's rooms, and when a peer gets the list of local
agents.

Each agent has an entry `io.cis.agent.registered` in a room's state, and possibly `io.cis.agent.unregistered`; the
newer of the two counts. So a node that joins reads the agents from the room itself, and after a crash the
missing entries are found by comparing the rooms with the routing table.

Agent federation 1.0.0, "Agent discovery": a node that receives a registration may answer with the list of its
own agents. Two nodes that always answer would never stop. So: "once per peer when it first appears or was
offline, at most once a minute, so that the exchange ends after one round". A registration within that minute
is answered at its end.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridge.agents.agent import Agent, Capabilities
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.event_fields import LONGEST_RUNTIME
from bridge.connectors.cis.protocol.events import Registered, StatusUpdate, Unregistered
from bridge.connectors.cis.protocol.rooms import AgentRoom

MOVED = "moved"
"""The reason of `unregistered` for an agent that is online, but no longer announced in this room."""
UNKNOWN_RUNTIME = "unknown"


class _Entry(NamedTuple):
    is_online: bool
    sent_at: int
    runtime: str = ""
    capabilities: Capabilities = ()


class Announcements:
    """The registrations in the state of this node's rooms."""

    def __init__(self, rooms: Iterable[AgentRoom]) -> None:
        self._entries: dict[AgentRoom, dict[str, _Entry]] = {room: {} for room in rooms}

    def read(self, room: AgentRoom, event: Registered | Unregistered) -> None:
        """Store an entry of a room's state. Entries may arrive in any order."""
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
        """Return the ids of the agents that a room lists as registered."""
        return {
            agent_id for entries in self._entries.values() for agent_id, entry in entries.items() if entry.is_online
        }

    def missing(self, agent: Agent, rooms: Collection[AgentRoom]) -> list[tuple[AgentRoom, Registered | Unregistered]]:
        """Return the events that are missing for `rooms`, and no other room, to list the agent while it is
        online. `unregistered` comes first: a node that reads several rooms uses the newest entry of all of
        them."""
        known = [(room, entries.get(agent.agent_id)) for room, entries in self._entries.items()]
        wanted = set(rooms) if agent.is_online else set()
        gone = [
            (room, _unregistered(agent, entry))
            for room, entry in known
            if entry is not None and entry.is_online and room not in wanted
        ]
        times = [entry.sent_at for _, entry in known if entry is not None]
        newest = max([*times, *(event.sent_at for _, event in gone)], default=None)
        added = [
            (room, registered(agent, after=newest))
            for room, entry in known
            if room in wanted and (entry is None or not entry.is_online or _differ(entry, agent))
        ]
        return [*gone, *added]


def registered(agent: Agent, *, after: int | None = None) -> Registered:
    """Return the registration of an agent, with a timestamp later than `after` even if the clock is
    behind."""
    sent_at = max(agent.sent_at, agent.registered_at)
    return Registered(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        runtime_type=_runtime(agent),
        capabilities=agent.capabilities,
        timestamp=event_fields.from_milliseconds(sent_at if after is None else max(sent_at, after + 1)),
    )


def status_update(agent: Agent) -> StatusUpdate:
    return StatusUpdate(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        status=agent.status,
        current_task=agent.current_task,
        timestamp=event_fields.from_milliseconds(agent.sent_at),
    )


def _unregistered(agent: Agent, entry: _Entry) -> Unregistered:
    sent_at = agent.sent_at if agent.gone_at is None else max(agent.gone_at, agent.sent_at)
    return Unregistered(
        agent_id=agent.agent_id,
        node_id=agent.node_id,
        reason=agent.gone_reason or MOVED,
        timestamp=event_fields.from_milliseconds(max(sent_at, entry.sent_at)),
    )


def _differ(entry: _Entry, agent: Agent) -> bool:
    current = registered(agent)
    return (entry.runtime, entry.capabilities) != (current.runtime_type, current.capabilities)


def _runtime(agent: Agent) -> str:
    """Return the agent's runtime as a valid field: other connectors choose theirs freely."""
    name = "".join(char for char in agent.runtime if char.isprintable())[:LONGEST_RUNTIME].strip()
    return name or UNKNOWN_RUNTIME


MIN_INTERVAL_MS: Final = 60_000
MAX_PEERS: Final = 10_000


@dataclass(slots=True)
class _Introduced:
    at: int
    is_offline: bool = False
    # The peer has registered again, and the minute is not over.
    is_pending: bool = False


class Introductions:
    """Decides when the list of local agents is sent to a peer. Times are milliseconds of any clock. The state
    may be lost: that costs one more round."""

    def __init__(self, max_peers: int = MAX_PEERS) -> None:
        assert max_peers > 0, "at least one peer must be remembered"
        self._max_peers = max_peers
        # In the order of their last introduction.
        self._introduced: OrderedDict[str, _Introduced] = OrderedDict()

    def registered(self, peer: str, now: int) -> bool:
        """The peer has registered an agent. Return whether to send it the list of local agents now."""
        introduced = self._introduced.get(peer)
        if introduced is None:
            return self._add(peer, now)
        if not introduced.is_offline or introduced.is_pending:
            return False
        if now < introduced.at + MIN_INTERVAL_MS:
            introduced.is_pending = True
            return False
        return self._introduce(peer, now)

    def lost(self, peer: str) -> None:
        """The peer has timed out or unregistered an agent."""
        introduced = self._introduced.get(peer)
        if introduced is not None:
            introduced.is_offline, introduced.is_pending = True, False

    def due(self, now: int) -> tuple[str, ...]:
        """Return the peers to which the list is to be sent now; each is returned once."""
        due = tuple(
            peer
            for peer, introduced in self._introduced.items()
            if introduced.is_pending and now >= introduced.at + MIN_INTERVAL_MS
        )
        for peer in due:
            self._introduce(peer, now)
        return due

    def deadline(self) -> int | None:
        """Return when `due` next returns a peer; None if no introduction is pending."""
        pending = (one for one in self._introduced.values() if one.is_pending)
        return next((one.at + MIN_INTERVAL_MS for one in pending), None)

    def __len__(self) -> int:
        return len(self._introduced)

    def _add(self, peer: str, now: int) -> bool:
        if len(self._introduced) >= self._max_peers:
            oldest = next(iter(self._introduced))
            if now < self._introduced[oldest].at + MIN_INTERVAL_MS:
                # There are more new peers within a minute than can be remembered. Answering each would allow
                # a reply storm.
                return False
            del self._introduced[oldest]
        return self._introduce(peer, now)

    def _introduce(self, peer: str, now: int) -> bool:
        self._introduced[peer] = _Introduced(now)
        self._introduced.move_to_end(peer)
        return True
