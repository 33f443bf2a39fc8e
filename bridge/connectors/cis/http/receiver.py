"""Receives single events over HTTP: identifies the peer, examines the event and dispatches its effect."""

import time
from collections.abc import Callable
from typing import Final

from bridge.agents import updates as agent_updates
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.cis.effects import Effect, UpdateAgent, effect_of
from bridge.connectors.cis.event_record import EventRecord, Verdict, subject_of, verdict_of
from bridge.connectors.cis.examination import UNKNOWN_PEER, UnknownEvent, ValidEvent, examine_envelope
from bridge.connectors.cis.protocol import envelope
from bridge.connectors.cis.protocol.envelope import Envelope, MalformedEvent
from bridge.connectors.cis.protocol.error_codes import EventResponse, accepted_response, refused_response
from bridge.connectors.cis.protocol.published import Source, digest, identify_peer
from bridge.connectors.cis.protocol.refusals import Forbidden, RateLimited, Refusal, Unavailable
from bridge.connectors.cis.registrations import UNKNOWN_RUNTIME
from bridge.connectors.cis.service.dispatch import EffectDispatcher
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.peers.peer import Peer
from federation.peers.limits import Buckets
from storage.agents import cis_events
from storage.connect import ConnectionLost
from storage.database import Connection, Database

MAX_RATE_LIMIT_KEYS: Final = 20_000
OTHER_CONTENT: Final = Forbidden("Another event was received before under this event id.")


class _RepeatedEvent(Exception):
    """Another transaction has stored the event meanwhile; this one is rolled back."""


class EventReceiver:
    def __init__(
        self,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        dispatcher: EffectDispatcher,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._routes = routes
        self._settings = settings
        self._dispatcher = dispatcher
        self._observer = observer
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._peer_limits: Buckets[str] = Buckets(MAX_RATE_LIMIT_KEYS)
        self._agent_limits: Buckets[tuple[str, str]] = Buckets(MAX_RATE_LIMIT_KEYS)

    async def receive(self, body: bytes, source: Source) -> EventResponse:
        if not self._settings.federate or not source.may_be_peer(self._settings):
            # The body of a request from an unknown client is not parsed.
            return self._refuse(None, UNKNOWN_PEER)
        event = envelope.read(body)
        if isinstance(event, MalformedEvent):
            return self._refuse(None, event.refusal, event_id=event.event_id)
        peer = identify_peer(event, source, self._settings)
        refusal = None if peer is None else self._rate_limit(peer, event)
        if refusal is not None:
            return self._refuse(peer, refusal, event)
        result = examine_envelope(event, peer, self._settings.node_id, header=source.header)
        match result:
            case ValidEvent():
                assert peer is not None, "an event of an unknown peer is never valid"
                return await self._accept(peer, event, result)
            case UnknownEvent():
                self._record(peer, event, Verdict.KEPT)
                return accepted_response(event.event_id)
        return self._refuse(peer, result, event)

    # -- inside --

    def _rate_limit(self, peer: Peer, event: Envelope) -> RateLimited | None:
        now, settings = self._monotonic(), self._settings
        excess = self._peer_limits.take(peer.node_id, settings.peer_rate, now) or self._agent_limits.take(
            (peer.node_id, event.sender), settings.agent_rate, now
        )
        return None if excess is None else RateLimited(excess.retry_after_ms)

    async def _accept(self, peer: Peer, event: Envelope, valid: ValidEvent) -> EventResponse:
        effect = effect_of(valid, peer, self._settings)
        try:
            if isinstance(effect, UpdateAgent) and isinstance(effect.update, agent_updates.AgentHeartbeat):
                await self._handle_heartbeat(effect.update)
                verdict: Verdict | Forbidden = Verdict.TAKEN
            else:
                verdict = await self._dispatch_once(peer, event, effect)
        except ConnectionLost:
            return self._refuse(peer, Unavailable(), event)
        if isinstance(verdict, Forbidden):
            return self._refuse(peer, verdict, event)
        self._record(peer, event, verdict, subject_of(valid.event))
        return accepted_response(event.event_id)

    async def _handle_heartbeat(self, heartbeat: agent_updates.AgentHeartbeat) -> None:
        """Apply a heartbeat. Its event id is not stored: heartbeats never end, and applying one twice changes
        nothing. An agent that was never registered is added with an unknown runtime."""
        if self._routes.agent(heartbeat.address) is None:
            registered = agent_updates.Registration(
                heartbeat.address, NAME, UNKNOWN_RUNTIME, (), heartbeat.sent_at, sends_heartbeats=True
            )
            await self._routes.update([registered, heartbeat])
        else:
            self._routes.update_later(heartbeat)

    async def _dispatch_once(self, peer: Peer, event: Envelope, effect: Effect) -> Verdict | Forbidden:
        """ "the key is (peer, event_id), an id with other content is refused\""""
        received = bytes.fromhex(digest(event))
        stored = await self._stored_digest(peer, event)

        async def commit(connection: Connection) -> None:
            is_new = await cis_events.insert_received(
                connection, peer.node_id, event.event_id, received, self._now_ms()
            )
            if not is_new:
                raise _RepeatedEvent

        if stored is None:
            try:
                await self._dispatcher.dispatch([effect], commit)
            except _RepeatedEvent:
                stored = await self._stored_digest(peer, event)
            else:
                return Verdict.TAKEN
        return Verdict.REPEATED if stored == received else OTHER_CONTENT

    async def _stored_digest(self, peer: Peer, event: Envelope) -> bytes | None:
        async with self._database.transaction(readonly=True) as connection:
            return await cis_events.fetch_digest(connection, peer.node_id, event.event_id)

    def _refuse(
        self, peer: Peer | None, refusal: Refusal, event: Envelope | None = None, *, event_id: str = ""
    ) -> EventResponse:
        if event is not None:
            self._record(peer, event, verdict_of(refusal), detail=str(refusal))
            return refused_response(refusal, event.event_id)
        self._observer.record(EventRecord(None, "", verdict_of(refusal), detail=str(refusal)))
        return refused_response(refusal, event_id)

    def _record(
        self,
        peer: Peer | None,
        event: Envelope,
        verdict: Verdict,
        subject: str | None = None,
        detail: str | None = None,
    ) -> None:
        node_id = None if peer is None else peer.node_id
        subject = subject or event.event_id
        self._observer.record(EventRecord(node_id, event.type, verdict, event.sender, event.room_id, subject, detail))
