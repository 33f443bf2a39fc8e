"""Joins the rooms of peers, brings peers into ours where those are entered by invite, and loads the agents of
a peer from the state of its rooms.

"nodes join each other's rooms on first contact in either direction, and again after a loss". A peer that does
not answer is asked after ever longer pauses; a sign of life of the peer makes it at once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import Registration, Unregistration
from bridge.connectors.cis.effects import Said, news_of
from bridge.connectors.cis.examination import From, Taken, examine_pdu
from bridge.connectors.cis.protocol.events import Registered, Unregistered
from bridge.connectors.cis.protocol.rooms import AgentRoom, room_id
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import Speech
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import NODE_USER
from bridge.peers.peer import Peer
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks

SHORTEST_MS: Final = 200
"""Between two attempts, whatever the peer does."""

K = TypeVar("K")


@dataclass(slots=True)
class _Wanted:
    at: int
    failures: int = 0
    tried_at: int | None = None
    is_under_way: bool = False


class Contacts(Generic[K]):
    """`wanted` are rooms by the peers to whom they belong; all of them are due at once. A peer is asked for
    one room after the other."""

    def __init__(self, wanted: Mapping[str, Iterable[K]], now: int, *, retry: int, longest: int) -> None:
        self._retry = retry
        self._shortest = min(retry, SHORTEST_MS)
        self._longest = longest
        self._wanted = {peer: {key: _Wanted(now) for key in keys} for peer, keys in wanted.items()}

    def due(self, now: int) -> list[tuple[str, K]]:
        """To be tried now, each told once; `done` or `failed` says how it ended."""
        due: list[tuple[str, K]] = []
        for peer, keys in self._wanted.items():
            if any(one.is_under_way for one in keys.values()):
                continue
            first = next((key for key, one in keys.items() if one.at <= now), None)
            if first is not None:
                keys[first].is_under_way = True
                keys[first].tried_at = now
                due.append((peer, first))
        return due

    def deadline(self) -> int | None:
        """When there is something to do next, unless something is said before. None: nothing is wanted."""
        return min(
            (
                one.at
                for keys in self._wanted.values()
                if not any(other.is_under_way for other in keys.values())
                for one in keys.values()
            ),
            default=None,
        )

    def want(self, peer: str, keys: Iterable[K], now: int) -> None:
        """These and no others are wanted of the peer from now on, all of them at once."""
        self._wanted[peer] = {key: _Wanted(now) for key in keys}

    def forget(self, peer: str) -> None:
        """Nothing is wanted of it any more, whatever becomes of what is under way."""
        self._wanted.pop(peer, None)

    def done(self, peer: str, key: K) -> None:
        self._wanted.get(peer, {}).pop(key, None)

    def failed(self, peer: str, key: K, now: int) -> None:
        one = self._wanted.get(peer, {}).get(key)
        if one is None:
            return  # somebody else has seen to it meanwhile, or nobody wants it any more
        one.is_under_way = False
        one.at = now + min(self._retry * 2 ** min(one.failures, 30), self._longest)
        one.failures += 1

    def met(self, peer: str, now: int) -> None:
        """The peer has given a sign of life: what is wanted of it is tried at once, unless it just was."""
        for one in self._wanted.get(peer, {}).values():
            tried = now if one.tried_at is None else max(now, one.tried_at + self._shortest)
            one.at = min(one.at, tried)

    def lost(self, peer: str, key: K, now: int) -> None:
        """This node is no longer in that room."""
        keys = self._wanted.get(peer)
        if keys is not None and key not in keys:
            keys[key] = _Wanted(now + self._retry, failures=1)

    def has(self, peer: str, key: K) -> bool:
        """Whether it is still wanted."""
        return key in self._wanted.get(peer, {})


ONE_BY_ONE = 100
"""As many agents are looked up singly; for more all of them are read."""
AT_ONCE = 1_000
BREATH = 200


class Learning:
    def __init__(
        self, side: MatrixBackend, routes: RoutingTable, settings: CisSettings, observer: CisObserver
    ) -> None:
        self._side = side
        self._routes = routes
        self._settings = settings
        self._observer = observer

    async def read(self, peer: Peer, room: AgentRoom) -> list[Said]:
        """What a room of the peer says of its agents now. Nothing, of a room that this node is not in."""
        entries: list[RoomEvent] = []
        for type_ in (Registered.TYPE, Unregistered.TYPE):
            entries += await self._side.state(room_id(room), type_)
        return await self._news(peer, entries)

    async def learn(
        self, peer: Peer, agent_ids: Collection[str] | None = None, *, as_of: int | None = None
    ) -> None:
        """Read it again in all rooms of the peer, of all agents or of some, and keep it. `as_of`: the peer
        lives, and has said so at this time; whoever was lost with it, and is in its rooms, is there."""
        for room in self._settings.rooms_of(peer):
            try:
                if agent_ids is not None and len(agent_ids) <= ONE_BY_ONE:
                    said = await self._news(peer, await self._entries(room, agent_ids))
                else:
                    said = await self.read(peer, room)
            except MatrixError:
                continue  # this node is not in there
            said = said if as_of is None else [self._renewed(one, as_of) for one in said]
            for begin in range(0, len(said), AT_ONCE):
                await self._routes.update(said[begin : begin + AT_ONCE])

    def _renewed(self, news: Said, as_of: int) -> Said:
        """Newer than what is known by as little as can be: what its node has said of it meanwhile may still
        be on its way, behind the sign of life."""
        known = self._routes.agent(news.address)
        if not isinstance(news, Registration) or known is None or not known.is_lost:
            return news
        sent_at = min(as_of, known.sent_at + 1)
        return news if news.sent_at >= sent_at else replace(news, sent_at=sent_at)

    async def _entries(self, room: AgentRoom, agent_ids: Iterable[str]) -> list[RoomEvent]:
        found = []
        for agent_id in agent_ids:
            for type_ in (Registered.TYPE, Unregistered.TYPE):
                entry = await self._side.state_event(room_id(room), type_, agent_id)
                if entry is not None:
                    found.append(entry)
        return found

    async def _news(self, peer: Peer, entries: Iterable[RoomEvent]) -> list[Said]:
        newest: dict[str, Said] = {}
        for number, entry in enumerate(entries):
            if number % BREATH == 0:
                await asyncio.sleep(0)  # of many agents, everything else need not wait for all
            examined = examine_pdu(
                entry.type, entry.content, entry.room_id, entry.sender, peer, self._settings.node_id
            )
            if not isinstance(examined, Taken) or not isinstance(examined.sender, From):
                continue  # it was refused, and told, when it came
            event = examined.event
            if not isinstance(event, Registered | Unregistered) or event.agent_id != entry.state_key:
                continue
            news = news_of(event, sends_heartbeats=False)
            known = newest.get(event.agent_id)
            if known is None or _is_newer(news, known):
                newest[event.agent_id] = news
        return list(newest.values())


def _is_newer(news: Said, known: Said) -> bool:
    """ "Registered" and "unregistered" of the same time: it is gone."""
    if news.sent_at == known.sent_at:
        return isinstance(news, Unregistration)
    return news.sent_at > known.sent_at


TIMEOUT: Final = 30.0
"""Seconds for an invite."""
_INVITE: Final = "invite "


class Contacting:
    """It runs between `start` and `close`, in one process of a node."""

    def __init__(
        self,
        side: MatrixBackend,
        settings: CisSettings,
        speech: Speech,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._side = side
        self._settings = settings
        self._speech = speech
        self._observer = observer
        self._now_ms = now_ms
        self._contacts: Contacts[str] = Contacts(
            {}, now_ms(), retry=settings.retry_ms, longest=settings.longest_retry_ms
        )
        self._woken = asyncio.Event()
        self._background = BackgroundTasks()

    def start(self) -> None:
        """With the peers that there are now. Whoever starts it tells it from then on of those that change."""
        for peer in self._settings.homeservers():
            self._contacts.want(peer.node_id, self._wanted_of(peer), self._now_ms())
        self._background.supervise("contacts with peers", self._run)

    async def close(self) -> None:
        await self._background.close()

    def met(self, node_id: str) -> None:
        """A sign of life."""
        self._contacts.met(node_id, self._now_ms())
        self._woken.set()

    def lost(self, node_id: str, where: str) -> None:
        """This node is no longer in that room of the peer."""
        self._speech.gone(where, self._settings.node_user)
        self._contacts.lost(node_id, where, self._now_ms())
        self._woken.set()

    def follow(self, node_id: str) -> None:
        """The peer has come, or gone, or is another one."""
        access = self._settings.access(node_id)
        if access is None or not access.is_homeserver:
            self._contacts.forget(node_id)
        else:
            self._contacts.want(node_id, self._wanted_of(access.peer), self._now_ms())
        self._woken.set()

    def is_in_touch(self, node_id: str) -> bool:
        """Whether this node is in all rooms of the peer that it wants to be in."""
        peer = self._settings.peer(node_id)
        return peer is not None and not any(self._contacts.has(node_id, one) for one in self._wanted_of(peer))

    # -- inside --

    def _wanted_of(self, peer: Peer) -> list[str]:
        wanted = [room_id(room) for room in self._settings.rooms_of(peer)]
        if self._settings.join_rule == "invite":
            ours = (room for room in self._settings.own_rooms() if self._settings.may_use(peer, room))
            wanted = [*(_INVITE + room_id(room) for room in ours), *wanted]
        return wanted

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            for node_id, what in self._contacts.due(now_ms):
                self._background.spawn("contact with a peer", self._try(node_id, what))
            deadline = self._contacts.deadline()
            wait = None if deadline is None else max(0, deadline - now_ms) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            self._woken.clear()

    async def _try(self, node_id: str, what: str) -> None:
        try:
            if what.startswith(_INVITE):
                async with asyncio.timeout(TIMEOUT):
                    await self._invite(what.removeprefix(_INVITE), node_id)
            else:
                await self._speech.come(what, self._settings.node_user, node_id)
        except (MatrixError, TimeoutError):
            self._contacts.failed(node_id, what, self._now_ms())
        except Exception as error:
            self._observer.problem(f"The room {what} of {node_id} could not be joined.", error)
            self._contacts.failed(node_id, what, self._now_ms())
        else:
            self._contacts.done(node_id, what)
        self._woken.set()

    async def _invite(self, where: str, node_id: str) -> None:
        await self._side.invite(where, self._settings.node_user, f"@{NODE_USER}:{node_id}")
