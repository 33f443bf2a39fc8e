"""Joins the rooms of peers, invites peers to this node's rooms if they are invite-only, and loads the agents
of a peer from the state of its rooms.

"nodes join each other's rooms on first contact in either direction, and again after a loss". If a peer does
not answer, the attempts are repeated with increasing delays, and at once when the peer is active again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import Registration, Unregistration
from bridge.connectors.cis.effects import AgentUpdate, agent_update
from bridge.connectors.cis.examination import AgentSender, ValidEvent, examine_pdu
from bridge.connectors.cis.protocol.events import Registered, Unregistered
from bridge.connectors.cis.protocol.rooms import AgentRoom, room_id
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import RoomSender
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import NODE_USER
from bridge.peers.peer import Peer
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks

SHORTEST_DELAY_MS: Final = 200
"""The least time between two attempts, even if the peer is active."""

K = TypeVar("K")


@dataclass(slots=True)
class _Pending:
    due_at: int
    failures: int = 0
    tried_at: int | None = None
    is_running: bool = False


class RetrySchedule(Generic[K]):
    """Decides when to attempt each action (a join or an invite, identified by a key) on a peer. The actions
    of a peer run one after the other. `pending` has the actions of each peer, which are due at once."""

    def __init__(self, pending: Mapping[str, Iterable[K]], now: int, *, retry: int, longest: int) -> None:
        self._retry = retry
        self._shortest = min(retry, SHORTEST_DELAY_MS)
        self._longest = longest
        self._pending = {peer: {key: _Pending(now) for key in keys} for peer, keys in pending.items()}

    def due(self, now: int) -> list[tuple[str, K]]:
        """Return the actions to attempt now, each once; the caller reports the result with `done` or
        `failed`."""
        due: list[tuple[str, K]] = []
        for peer, actions in self._pending.items():
            if any(action.is_running for action in actions.values()):
                continue
            first = next((key for key, action in actions.items() if action.due_at <= now), None)
            if first is not None:
                actions[first].is_running = True
                actions[first].tried_at = now
                due.append((peer, first))
        return due

    def deadline(self) -> int | None:
        """Return when the next action is due, if nothing is reported before; None if no action is pending."""
        return min(
            (
                action.due_at
                for actions in self._pending.values()
                if not any(other.is_running for other in actions.values())
                for action in actions.values()
            ),
            default=None,
        )

    def replace(self, peer: str, keys: Iterable[K], now: int) -> None:
        """Replace the pending actions of a peer by these, which are due at once."""
        self._pending[peer] = {key: _Pending(now) for key in keys}

    def remove(self, peer: str) -> None:
        """Remove all actions of a peer. The result of a running one is ignored."""
        self._pending.pop(peer, None)

    def done(self, peer: str, key: K) -> None:
        self._pending.get(peer, {}).pop(key, None)

    def failed(self, peer: str, key: K, now: int) -> None:
        action = self._pending.get(peer, {}).get(key)
        if action is None:
            return  # it was done or removed meanwhile
        action.is_running = False
        action.due_at = now + min(self._retry * 2 ** min(action.failures, 30), self._longest)
        action.failures += 1

    def peer_active(self, peer: str, now: int) -> None:
        """The peer is reachable: its actions are due at once, unless they were attempted a moment ago."""
        for action in self._pending.get(peer, {}).values():
            due_at = now if action.tried_at is None else max(now, action.tried_at + self._shortest)
            action.due_at = min(action.due_at, due_at)

    def add(self, peer: str, key: K, now: int) -> None:
        """Add an action that was done before and has to be repeated after a delay, such as joining a room
        again."""
        actions = self._pending.get(peer)
        if actions is not None and key not in actions:
            actions[key] = _Pending(now + self._retry, failures=1)

    def is_pending(self, peer: str, key: K) -> bool:
        return key in self._pending.get(peer, {})


MAX_LOOKUPS = 100
"""Up to this many agents are looked up one by one; for more, the whole state is read."""
BATCH_SIZE = 1_000
YIELD_EVERY = 200


class AgentDiscovery:
    """Loads the agents of peers from the state of their rooms."""

    def __init__(
        self, backend: MatrixBackend, routes: RoutingTable, settings: CisSettings, observer: CisObserver
    ) -> None:
        self._backend = backend
        self._routes = routes
        self._settings = settings
        self._observer = observer

    async def read(self, peer: Peer, room: AgentRoom) -> list[AgentUpdate]:
        """Return the agents in the current state of a peer's room; none if this node is not in the room."""
        entries: list[RoomEvent] = []
        for type_ in (Registered.TYPE, Unregistered.TYPE):
            entries += await self._backend.state(room_id(room), type_)
        return await self._updates(peer, entries)

    async def discover(self, peer: Peer, agent_ids: Collection[str] | None = None, *, as_of: int | None = None) -> None:
        """Read all agents, or some, from all rooms of the peer, and update the routing table. `as_of` is the
        time of a heartbeat that shows that the peer is online again: agents that were lost with it, and are
        still registered in its rooms, are online again, too."""
        for room in self._settings.rooms_of(peer):
            try:
                if agent_ids is not None and len(agent_ids) <= MAX_LOOKUPS:
                    updates = await self._updates(peer, await self._entries(room, agent_ids))
                else:
                    updates = await self.read(peer, room)
            except MatrixError:
                continue  # this node is not in the room
            updates = updates if as_of is None else [self._renewed(update, as_of) for update in updates]
            for begin in range(0, len(updates), BATCH_SIZE):
                await self._routes.update(updates[begin : begin + BATCH_SIZE])

    def _renewed(self, update: AgentUpdate, as_of: int) -> AgentUpdate:
        """Return the registration of a lost agent with a time just after its last known state: an update that
        its node sent meanwhile may arrive after the heartbeat, and must count as newer."""
        known = self._routes.agent(update.address)
        if not isinstance(update, Registration) or known is None or not known.is_lost:
            return update
        sent_at = min(as_of, known.sent_at + 1)
        return update if update.sent_at >= sent_at else replace(update, sent_at=sent_at)

    async def _entries(self, room: AgentRoom, agent_ids: Iterable[str]) -> list[RoomEvent]:
        found = []
        for agent_id in agent_ids:
            for type_ in (Registered.TYPE, Unregistered.TYPE):
                entry = await self._backend.state_event(room_id(room), type_, agent_id)
                if entry is not None:
                    found.append(entry)
        return found

    async def _updates(self, peer: Peer, entries: Iterable[RoomEvent]) -> list[AgentUpdate]:
        newest: dict[str, AgentUpdate] = {}
        for number, entry in enumerate(entries):
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)  # a room with many agents must not block the event loop
            examined = examine_pdu(entry.type, entry.content, entry.room_id, entry.sender, peer, self._settings.node_id)
            if not isinstance(examined, ValidEvent) or not isinstance(examined.sender, AgentSender):
                continue  # the refusal was recorded when the event was received
            event = examined.event
            if not isinstance(event, Registered | Unregistered) or event.agent_id != entry.state_key:
                continue
            update = agent_update(event, sends_heartbeats=False)
            known = newest.get(event.agent_id)
            if known is None or _is_newer(update, known):
                newest[event.agent_id] = update
        return list(newest.values())


def _is_newer(update: AgentUpdate, known: AgentUpdate) -> bool:
    """At equal times, "unregistered" counts as newer than "registered"."""
    if update.sent_at == known.sent_at:
        return isinstance(update, Unregistration)
    return update.sent_at > known.sent_at


INVITE_TIMEOUT: Final = 30.0
"""Timeout in seconds for an invite."""
_INVITE: Final = "invite "


class RoomJoiner:
    """Joins the rooms of peers and invites peers to this node's rooms. It runs between `start` and `close`,
    in one process of a node."""

    def __init__(
        self,
        backend: MatrixBackend,
        settings: CisSettings,
        room_sender: RoomSender,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._room_sender = room_sender
        self._observer = observer
        self._now_ms = now_ms
        # The keys are room ids, with the prefix `_INVITE` for invites.
        self._schedule: RetrySchedule[str] = RetrySchedule(
            {}, now_ms(), retry=settings.retry_ms, longest=settings.longest_retry_ms
        )
        self._woken = asyncio.Event()
        self._background = BackgroundTasks()

    def start(self) -> None:
        """Start with the current peers. The caller must report later changes with `peer_changed`."""
        for peer in self._settings.homeservers():
            self._schedule.replace(peer.node_id, self._actions_for(peer), self._now_ms())
        self._background.supervise("joins of peers' rooms", self._run)

    async def close(self) -> None:
        await self._background.close()

    def peer_active(self, node_id: str) -> None:
        """The peer is reachable: attempt its pending joins and invites at once."""
        self._schedule.peer_active(node_id, self._now_ms())
        self._woken.set()

    def room_left(self, node_id: str, room_id: str) -> None:
        """This node is no longer in a room of the peer: join it again."""
        self._room_sender.user_left(room_id, self._settings.node_user)
        self._schedule.add(node_id, room_id, self._now_ms())
        self._woken.set()

    def peer_changed(self, node_id: str) -> None:
        """The peer was added, removed or changed."""
        access = self._settings.access(node_id)
        if access is None or not access.is_homeserver:
            self._schedule.remove(node_id)
        else:
            self._schedule.replace(node_id, self._actions_for(access.peer), self._now_ms())
        self._woken.set()

    def has_joined_all(self, node_id: str) -> bool:
        """Return whether this node has joined all rooms of the peer, and sent all invites, that it should."""
        peer = self._settings.peer(node_id)
        return peer is not None and not any(
            self._schedule.is_pending(node_id, action) for action in self._actions_for(peer)
        )

    # -- inside --

    def _actions_for(self, peer: Peer) -> list[str]:
        actions = [room_id(room) for room in self._settings.rooms_of(peer)]
        if self._settings.join_rule == "invite":
            own = (room for room in self._settings.own_rooms() if self._settings.may_use(peer, room))
            actions = [*(_INVITE + room_id(room) for room in own), *actions]
        return actions

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            for node_id, action in self._schedule.due(now_ms):
                self._background.spawn("join of a peer's room", self._try(node_id, action))
            deadline = self._schedule.deadline()
            wait = None if deadline is None else max(0, deadline - now_ms) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            self._woken.clear()

    async def _try(self, node_id: str, action: str) -> None:
        try:
            if action.startswith(_INVITE):
                async with asyncio.timeout(INVITE_TIMEOUT):
                    await self._invite(action.removeprefix(_INVITE), node_id)
            else:
                await self._room_sender.join(action, self._settings.node_user, node_id)
        except (MatrixError, TimeoutError):
            self._schedule.failed(node_id, action, self._now_ms())
        except Exception as error:
            if action.startswith(_INVITE):
                problem = f"Failed to invite {node_id} to {action.removeprefix(_INVITE)}."
            else:
                problem = f"Failed to join {action} of {node_id}."
            self._observer.report_problem(problem, error)
            self._schedule.failed(node_id, action, self._now_ms())
        else:
            self._schedule.done(node_id, action)
        self._woken.set()

    async def _invite(self, room_id: str, node_id: str) -> None:
        await self._backend.invite(room_id, self._settings.node_user, f"@{NODE_USER}:{node_id}")
