"""Takes a single event that was sent over HTTP: from whom it is, whether it may be, and what follows."""

import time
from collections.abc import Callable
from typing import Final

from bridge.agents import updates as agent_updates
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.cis.acts import Act, Verdict, subject_of, verdict_of
from bridge.connectors.cis.effects import Effect, News, effect_of
from bridge.connectors.cis.examination import UNKNOWN_PEER, Kept, Taken, examine_envelope
from bridge.connectors.cis.protocol import envelope
from bridge.connectors.cis.protocol.envelope import Envelope, Unread
from bridge.connectors.cis.protocol.error_codes import TaskAnswer, accepted, refused
from bridge.connectors.cis.protocol.published import Source, digest, peer_of
from bridge.connectors.cis.protocol.refusals import Forbidden, Refusal, TooFast, Unavailable
from bridge.connectors.cis.registrations import UNKNOWN_RUNTIME
from bridge.connectors.cis.service.dispatch import Taking
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.peers.peer import Peer
from federation.peers.limits import Buckets
from storage.agents import cis_events
from storage.connect import ConnectionLost
from storage.database import Connection, Database

MOST_TOLD_APART: Final = 20_000
OTHER_CONTENT: Final = Forbidden("The event's id is that of another event.")


class _Repeated(Exception):
    """The event was taken in meanwhile. Nothing of it is kept a second time."""


class Receiving:
    def __init__(
        self,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        taking: Taking,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._routes = routes
        self._settings = settings
        self._taking = taking
        self._observer = observer
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._of_peers: Buckets[str] = Buckets(MOST_TOLD_APART)
        self._of_agents: Buckets[tuple[str, str]] = Buckets(MOST_TOLD_APART)

    async def receive(self, body: bytes, source: Source) -> TaskAnswer:
        if not self._settings.federate or not source.may_be_somebody(self._settings):
            # Nothing that strangers send is looked into.
            return self._refuse(None, UNKNOWN_PEER)
        read = envelope.read(body)
        if isinstance(read, Unread):
            return self._refuse(None, read.refusal, event_id=read.event_id)
        peer = peer_of(read, source, self._settings)
        refusal = None if peer is None else self._excess(peer, read)
        if refusal is not None:
            return self._refuse(peer, refusal, read)
        examined = examine_envelope(read, peer, self._settings.node_id, header=source.header)
        match examined:
            case Taken():
                assert peer is not None, "of nobody else anything is taken"
                return await self._take(peer, read, examined)
            case Kept():
                self._note(peer, read, Verdict.KEPT)
                return accepted(read.event_id)
        return self._refuse(peer, examined, read)

    # -- inside --

    def _excess(self, peer: Peer, read: Envelope) -> TooFast | None:
        now, settings = self._monotonic(), self._settings
        excess = self._of_peers.take(peer.node_id, settings.of_peer, now) or self._of_agents.take(
            (peer.node_id, read.sender), settings.of_agent, now
        )
        return None if excess is None else TooFast(excess.retry_after_ms)

    async def _take(self, peer: Peer, read: Envelope, taken: Taken) -> TaskAnswer:
        effect = effect_of(taken, peer, self._settings)
        try:
            if isinstance(effect, News) and isinstance(effect.said, agent_updates.AgentHeartbeat):
                await self._take_beat(effect.said)
                verdict: Verdict | Forbidden = Verdict.TAKEN
            else:
                verdict = await self._take_once(peer, read, effect)
        except ConnectionLost:
            return self._refuse(peer, Unavailable(), read)
        if isinstance(verdict, Forbidden):
            return self._refuse(peer, verdict, read)
        self._note(peer, read, verdict, subject_of(taken.event))
        return accepted(read.event_id)

    async def _take_beat(self, beat: agent_updates.AgentHeartbeat) -> None:
        """Not remembered by its id: it comes without end, and taken twice it changes nothing. Of an agent
        that was never registered no more is known than where it is."""
        if self._routes.agent(beat.address) is None:
            found = agent_updates.Registration(
                beat.address, NAME, UNKNOWN_RUNTIME, (), beat.sent_at, sends_heartbeats=True
            )
            await self._routes.update([found, beat])
        else:
            self._routes.update_later(beat)

    async def _take_once(self, peer: Peer, read: Envelope, effect: Effect) -> Verdict | Forbidden:
        """ "the key is (peer, event_id), an id with other content is refused\""""
        said = bytes.fromhex(digest(read))
        known = await self._known(peer, read)

        async def commit(connection: Connection) -> None:
            if not await cis_events.insert_received(
                connection, peer.node_id, read.event_id, said, self._now_ms()
            ):
                raise _Repeated

        if known is None:
            try:
                await self._taking.take([effect], commit)
            except _Repeated:
                known = await self._known(peer, read)
            else:
                return Verdict.TAKEN
        return Verdict.REPEATED if known == said else OTHER_CONTENT

    async def _known(self, peer: Peer, read: Envelope) -> bytes | None:
        async with self._database.transaction(readonly=True) as connection:
            return await cis_events.fetch_digest(connection, peer.node_id, read.event_id)

    def _refuse(
        self, peer: Peer | None, refusal: Refusal, read: Envelope | None = None, *, event_id: str = ""
    ) -> TaskAnswer:
        if read is not None:
            self._note(peer, read, verdict_of(refusal), detail=str(refusal))
            return refused(refusal, read.event_id)
        self._observer.acted(Act(None, "", verdict_of(refusal), detail=str(refusal)))
        return refused(refusal, event_id)

    def _note(
        self,
        peer: Peer | None,
        read: Envelope,
        verdict: Verdict,
        subject: str | None = None,
        detail: str | None = None,
    ) -> None:
        who = None if peer is None else peer.node_id
        self._observer.acted(
            Act(who, read.type, verdict, read.sender, read.room_id, subject or read.event_id, detail)
        )
