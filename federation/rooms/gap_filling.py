"""Fetches events that a batch of received events needs and this server does not have. Nothing is locked
meanwhile.

Missing events between the known history and the batch are fetched with `get_missing_events`. If that does not
close the gap, the state before the first event behind it is fetched with `state_ids`, and the unknown events
of that state one by one or with `state`. Auth events are fetched with `event_auth`. Fetched events are
verified and authorised like received ones, so a peer cannot introduce false ones this way.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.client.errors import is_temporary
from federation.client.peer_events import FederationEventClient, StateIds
from federation.events import EventId, Malformed, create_event_id
from federation.events.graph import missing_references
from federation.events.received import Dropped
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.store import RoomStore
from federation.rooms.verify_events import EventVerifier
from storage.rooms.events import fetch_least_depth

MISSING_EVENTS_LIMIT: Final = 20
"""`limit` of a `get_missing_events` request; Synapse returns no more."""
MAX_MISSING_EVENTS_REQUESTS: Final = 25
"""`get_missing_events` requests for one gap, as long as each response helps: five hundred events. That is as
many as the outbox sends after an outage without leaving any out."""
MAX_AUTH_EVENT_ROUNDS: Final = 5
"""Rounds of `event_auth` requests."""
MAX_STATES: Final = 10
"""States that are fetched for one batch. Each can be that of a large room."""
MAX_STATE_EVENTS: Final = 200_000
MAX_SINGLE_EVENTS: Final = 20
"""Up to this number, unknown events of a state are fetched one by one; beyond it, the whole state is."""
CONCURRENT_REQUESTS: Final = 10


@dataclass(slots=True)
class RoomBatch:
    """Events of one room that are received together, by their ids."""

    room_id: str
    version: RoomVersion
    events: dict[EventId, VerifiedEvent] = field(default_factory=dict)
    """Events to insert into the event graph."""
    outliers: dict[EventId, VerifiedEvent] = field(default_factory=dict)
    """Auth and state events that they need."""
    states: dict[EventId, StateIds] = field(default_factory=dict)
    """The state before events that lie behind a gap, as another server has reported it."""
    first_depth: int = 0
    """The depth at which the known history begins. Events before it are not part of a gap."""
    peer_answered: bool | None = None
    """Whether the peer has answered all requests for this batch; None if there were none."""

    def record_answer(self) -> None:
        """Record that the peer has answered a request, whatever the response."""
        if self.peer_answered is None:
            self.peer_answered = True

    def record_failure(self, problem: PeerError) -> None:
        """Record that a request has failed. A temporary failure makes `peer_answered` false, so that the
        events are received again later instead of being handled without the missing ones."""
        self.peer_answered = self.peer_answered is not False and not is_temporary(problem)


class GapFiller:
    """Fetches missing events from other servers. `report` receives a sentence about each failure."""

    def __init__(
        self,
        peer_events: FederationEventClient,
        verifier: EventVerifier,
        store: RoomStore,
        report: Callable[[str], None],
    ) -> None:
        self._peer_events = peer_events
        self._verifier = verifier
        self._store = store
        self._report = report

    async def fill(self, peer: str, batch: RoomBatch, extremities: Sequence[EventId]) -> None:
        """Add the missing events that the batch needs, as far as the peer has them. Without missing events,
        no request is made."""
        for number in range(MAX_MISSING_EVENTS_REQUESTS):
            unknown = await self._unknown_prev_events(batch)
            if unknown and not number:
                async with self._store.connection() as connection:
                    batch.first_depth = await fetch_least_depth(connection, batch.room_id)
            if not unknown or not await self._fetch_missing_events(peer, batch, extremities, unknown):
                break
        if batch.peer_answered is False:
            # The gap may be small. Skipping it with a fetched state would leave its events unknown for good.
            return
        for event_id in sorted(await self._unknown_prev_events(batch))[:MAX_STATES]:
            await self._fetch_state(peer, batch, event_id)
        await self.fill_auth_events(peer, batch)

    async def fetch_history(self, peer: str, batch: RoomBatch, start: Collection[EventId], limit: int) -> None:
        """Add the events before known ones to the batch, and the state before the first of them."""
        try:
            received = await self._peer_events.backfill(peer, batch.room_id, start, limit)
        except PeerError as problem:
            self._report(f"Failed to fetch history of {batch.room_id}: {problem}")
            return
        # "The size limits on prev/auth events are not applied to what comes back": the events were accepted
        # long ago.
        new = await self._verified(batch, received[: limit + len(start)], enforce_counts=False)
        known = await self._store.events(new, refresh_outliers=True)
        batch.events |= {one: new[one] for one in new if one not in known or known[one].is_outlier}
        for event_id in sorted(await self._unknown_prev_events(batch))[:MAX_STATES]:
            await self._fetch_state(peer, batch, event_id)
        await self.fill_auth_events(peer, batch)

    async def _unknown_prev_events(self, batch: RoomBatch) -> set[EventId]:
        unknown = missing_references((event.pdu.prev_events for event in batch.events.values()), batch.events)
        unknown -= batch.states.keys()
        found = await self._store.events(unknown, refresh_outliers=True)
        return {event_id for event_id in unknown if event_id not in found or found[event_id].is_outlier}

    async def _fetch_missing_events(
        self, peer: str, batch: RoomBatch, extremities: Sequence[EventId], unknown: set[EventId]
    ) -> bool:
        """Fetch missing events, and return whether there were any."""
        latest = [event_id for event_id, event in batch.events.items() if not unknown.isdisjoint(event.pdu.prev_events)]
        try:
            received = await self._peer_events.missing_events(
                peer,
                batch.room_id,
                earliest=extremities,
                latest=latest[:MISSING_EVENTS_LIMIT],
                limit=MISSING_EVENTS_LIMIT,
                min_depth=batch.first_depth,
            )
        except PeerError as problem:
            self._report(f"Failed to fetch missing events of {batch.room_id}: {problem}")
            batch.record_failure(problem)
            return False
        batch.record_answer()
        new = await self._verified(batch, received[:MISSING_EVENTS_LIMIT])
        before = len(batch.events)
        # Other events of the response are ignored. If the gap is parallel to the known extremities, the peer
        # continues behind it through events that are known.
        known = await self._store.events(new, refresh_outliers=True)
        new = {
            event_id: event
            for event_id, event in new.items()
            if (event_id not in known or known[event_id].is_outlier) and event.pdu.depth >= batch.first_depth
        }
        wanted = set(unknown)
        to_visit = list(unknown)
        while to_visit:
            event = new.get(to_visit.pop())
            if event is not None:
                batch.events[event.pdu.event_id] = event
                further = [one for one in event.pdu.prev_events if one not in wanted]
                wanted.update(further)
                to_visit.extend(further)
        return len(batch.events) > before

    async def _fetch_state(self, peer: str, batch: RoomBatch, event_id: EventId) -> None:
        try:
            ids = await self._peer_events.state_ids(peer, batch.room_id, event_id)
            batch.record_answer()
            if len(ids.pdu_ids) + len(ids.auth_chain_ids) > MAX_STATE_EVENTS:
                self._report(
                    f"Ignored a state of {batch.room_id} from {peer}: it has more than {MAX_STATE_EVENTS} events."
                )
                return
            await self._fetch_events(peer, batch, [event_id])
            everything = [*ids.pdu_ids, *ids.auth_chain_ids]
            unknown = await self._unknown(batch, everything)
            if len(unknown) > MAX_SINGLE_EVENTS:
                state = await self._peer_events.state(peer, batch.room_id, event_id)
                received = await self._verified(batch, [*state.pdus, *state.auth_chain], enforce_counts=False)
                batch.outliers |= {one: received[one] for one in unknown if one in received}
                unknown = await self._unknown(batch, everything)
            await self._fetch_events(peer, batch, unknown[: 10 * MAX_SINGLE_EVENTS])
        except PeerError as problem:
            self._report(f"Failed to fetch the state of {batch.room_id} behind a gap: {problem}")
            batch.record_failure(problem)
            return
        if batch.peer_answered is not False:  # without the events of failed requests it would be another state
            batch.states[event_id] = ids

    async def fill_auth_events(self, peer: str, batch: RoomBatch) -> None:
        for _ in range(MAX_AUTH_EVENT_ROUNDS):
            by_event = {
                event_id: unknown
                for event_id, event in (*batch.events.items(), *batch.outliers.items())
                if (unknown := self._missing_auth_events(batch, event))
            }
            known = await self._store.events(set().union(*by_event.values()))
            by_event = {one: left for one, unknown in by_event.items() if (left := unknown - known.keys())}
            if not by_event:
                return
            if not await self._fetch_auth_events(peer, batch, by_event):
                return

    async def _fetch_auth_events(self, peer: str, batch: RoomBatch, by_event: dict[EventId, set[EventId]]) -> bool:
        wanted = set().union(*by_event.values())
        had = len(batch.outliers)
        event_id = max(by_event, key=lambda one: len(by_event[one]))
        try:
            chain = await self._peer_events.event_auth(peer, batch.room_id, event_id)
            received = await self._verified(batch, chain, enforce_counts=False)
            batch.outliers |= {one: event for one, event in received.items() if one not in batch.events}
        except PeerError as problem:
            self._report(f"Failed to fetch the auth chain of {event_id} in {batch.room_id}: {problem}")
            batch.record_failure(problem)
        await self._fetch_events(
            peer, batch, [one for one in sorted(wanted) if one not in batch.outliers][:MAX_SINGLE_EVENTS]
        )
        return len(batch.outliers) > had

    def _missing_auth_events(self, batch: RoomBatch, event: VerifiedEvent) -> set[EventId]:
        needed = set(event.pdu.auth_events)
        if batch.version.create_event_is_room_id and event.pdu.type != "m.room.create":
            needed.add(create_event_id(batch.room_id))
        return needed - batch.events.keys() - batch.outliers.keys()

    async def _unknown(self, batch: RoomBatch, event_ids: Iterable[EventId]) -> list[EventId]:
        wanted = [one for one in dict.fromkeys(event_ids) if one not in batch.outliers]
        # An event of the batch may also be part of a state. Then it is needed before it is inserted.
        batch.outliers |= {one: batch.events[one] for one in wanted if one in batch.events}
        wanted = [one for one in wanted if one not in batch.outliers]
        known = await self._store.events(wanted)
        return [one for one in wanted if one not in known]

    async def _fetch_events(self, peer: str, batch: RoomBatch, event_ids: Collection[EventId]) -> None:
        """Fetch events one by one. Those that the peer does not provide stay unknown."""
        slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

        async def fetch(event_id: EventId) -> Any:
            async with slots:
                try:
                    return await self._peer_events.event(peer, event_id)
                except PeerError as problem:
                    self._report(f"Failed to fetch the event {event_id}: {problem}")
                    batch.record_failure(problem)
                    return None

        wanted = await self._unknown(batch, event_ids)
        received = await asyncio.gather(*map(fetch, wanted))
        found = await self._verified(batch, [one for one in received if one is not None], enforce_counts=False)
        batch.outliers |= {one: found[one] for one in wanted if one in found}

    async def _verified(
        self, batch: RoomBatch, events: Iterable[Any], *, enforce_counts: bool = True
    ) -> dict[EventId, VerifiedEvent]:
        verified = await self._verifier.verify(
            ((event, batch.version) for event in events), enforce_counts=enforce_counts
        )
        found = {}
        for parsed, result in verified:
            if isinstance(result, Dropped):
                if not isinstance(parsed, Malformed):
                    self._report(f"Dropped an event fetched for {batch.room_id}: {result}")
                continue
            if result.pdu.room_id == batch.room_id:
                found[result.pdu.event_id] = result
        return found
