"""Learns the agents of a peer from the state of its rooms."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace

from bridge.agent_news import Registered as RegisteredNews
from bridge.agent_news import Unregistered as UnregisteredNews
from bridge.connectors.cis.act import CisObserver
from bridge.connectors.cis.events import Registered, Unregistered
from bridge.connectors.cis.examination import Taken, examine_pdu
from bridge.connectors.cis.news import Said, news_of
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.rooms import AgentRoom, room_id
from bridge.connectors.cis.sender import From
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix_side import MatrixSide
from bridge.service.routing_table import RoutingTable
from federation.errors import MatrixError
from federation.room_event import RoomEvent

ONE_BY_ONE = 100
"""As many agents are looked up singly; for more all of them are read."""
AT_ONCE = 1_000
BREATH = 200


class Learning:
    def __init__(
        self, side: MatrixSide, routes: RoutingTable, settings: CisSettings, observer: CisObserver
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
                await self._routes.take(said[begin : begin + AT_ONCE])

    def _renewed(self, news: Said, as_of: int) -> Said:
        """Newer than what is known by as little as can be: what its node has said of it meanwhile may still
        be on its way, behind the sign of life."""
        known = self._routes.agent(news.address)
        if not isinstance(news, RegisteredNews) or known is None or not known.is_lost:
            return news
        said_at = min(as_of, known.said_at + 1)
        return news if news.said_at >= said_at else replace(news, said_at=said_at)

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
            news = news_of(event, by_itself=False)
            known = newest.get(event.agent_id)
            if known is None or _is_newer(news, known):
                newest[event.agent_id] = news
        return list(newest.values())


def _is_newer(news: Said, known: Said) -> bool:
    """ "Registered" and "unregistered" of the same time: it is gone."""
    if news.said_at == known.said_at:
        return isinstance(news, UnregisteredNews)
    return news.said_at > known.said_at
