"""Fetches what a batch of events of one room needs and this server has not got. Nothing is locked meanwhile.

What lies between is asked for with `get_missing_events`; where that does not reach, the state before the
first event behind the gap with `state_ids`, and as much of it as is unknown; auth events with `event_auth`. A
peer that lies gets nothing by it: every event is examined and judged like one that was sent.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.client.errors import may_pass
from federation.client.peer_events import FederationEvents, StateIds
from federation.events import EventId, Malformed, create_event_id
from federation.events.graph import missing
from federation.events.received import Dropped
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion
from federation.rooms.receive_checks import Genuine
from federation.rooms.store import RoomStore
from federation.rooms.verify_events import EventExaminer
from storage.rooms.events import fetch_least_depth

ASKED_AT_ONCE: Final = 20
"""Events of one `get_missing_events`; Synapse gives no more."""
MOST_QUESTIONS: Final = 25
"""For the events of one gap, as long as each answer helps: five hundred events. So many our outbox sends
whole after an outage."""
MOST_ROUNDS: Final = 5
"""Of questions for auth events."""
MOST_GAPS: Final = 10
"""How many states are fetched for one batch. Each can be that of a large room."""
MOST_STATE_EVENTS: Final = 200_000
SINGLY: Final = 20
"""Up to so many unknown events of a state are asked for one by one; more by asking for the whole state."""
IN_PARALLEL: Final = 10


@dataclass(slots=True)
class RoomBatch:
    """Events of one room that are to be taken in together, by their ids."""

    room_id: str
    version: RoomVersion
    events: dict[EventId, Genuine] = field(default_factory=dict)
    """Those that are to get a place in the history."""
    outliers: dict[EventId, Genuine] = field(default_factory=dict)
    """Those on which they rest."""
    states: dict[EventId, StateIds] = field(default_factory=dict)
    """The state before events that lie behind a gap, as another server has it."""
    first_depth: int = 0
    """Where the history begins that is known here: what lies before it is none of the gap."""
    is_reached: bool | None = None
    """Whether the peer could be asked all that there was to ask; None while there was nothing."""

    def reached(self) -> None:
        """The peer has answered, whatever it said."""
        if self.is_reached is None:
            self.is_reached = True

    def failed(self, problem: PeerError) -> None:
        """The peer gave nothing. Where that may pass, it is too early to go on without."""
        self.is_reached = self.is_reached is not False and not may_pass(problem)


class GapFiller:
    def __init__(
        self,
        peer_events: FederationEvents,
        examiner: EventExaminer,
        store: RoomStore,
        report: Callable[[str], None],
    ) -> None:
        self._peer_events = peer_events
        self._examiner = examiner
        self._store = store
        self._report = report

    async def fill(self, peer: str, batch: RoomBatch, extremities: Sequence[EventId]) -> None:
        """Add to the batch what it needs, as far as the peer has it. Nothing is asked where nothing lacks."""
        for number in range(MOST_QUESTIONS):
            unknown = await self._unknown_prevs(batch)
            if unknown and not number:
                async with self._store.connection() as connection:
                    batch.first_depth = await fetch_least_depth(connection, batch.room_id)
            if not unknown or not await self._ask_for_missing(peer, batch, extremities, unknown):
                break
        if batch.is_reached is False:
            # It could be a small gap, that is not to be jumped: what lies in it would never be known here.
            return
        for event_id in sorted(await self._unknown_prevs(batch))[:MOST_GAPS]:
            await self._ask_for_state(peer, batch, event_id)
        await self.fill_auth_events(peer, batch)

    async def fetch_history(
        self, peer: str, batch: RoomBatch, start: Collection[EventId], limit: int
    ) -> None:
        """Add to the batch what lies before events that are known, and the state where the answer ends."""
        try:
            given = await self._peer_events.backfill(peer, batch.room_id, start, limit)
        except PeerError as problem:
            self._report(f"No history of {batch.room_id}: {problem}")
            return
        # "The size limits on prev/auth events are not applied to what comes back": it was accepted long ago.
        new = await self._examined(batch, given[: limit + len(start)], enforce_counts=False)
        known = await self._store.events(new, placed=True)
        batch.events |= {one: new[one] for one in new if one not in known or known[one].is_outlier}
        for event_id in sorted(await self._unknown_prevs(batch))[:MOST_GAPS]:
            await self._ask_for_state(peer, batch, event_id)
        await self.fill_auth_events(peer, batch)

    async def _unknown_prevs(self, batch: RoomBatch) -> set[EventId]:
        unknown = missing((genuine.pdu.prev_events for genuine in batch.events.values()), batch.events)
        unknown -= batch.states.keys()
        found = await self._store.events(unknown, placed=True)
        return {event_id for event_id in unknown if event_id not in found or found[event_id].is_outlier}

    async def _ask_for_missing(
        self, peer: str, batch: RoomBatch, extremities: Sequence[EventId], unknown: set[EventId]
    ) -> bool:
        """Whether that helped."""
        latest = [
            event_id
            for event_id, genuine in batch.events.items()
            if not unknown.isdisjoint(genuine.pdu.prev_events)
        ]
        try:
            given = await self._peer_events.missing_events(
                peer,
                batch.room_id,
                earliest=extremities,
                latest=latest[:ASKED_AT_ONCE],
                limit=ASKED_AT_ONCE,
                min_depth=batch.first_depth,
            )
        except PeerError as problem:
            self._report(f"No events for a gap in {batch.room_id}: {problem}")
            batch.failed(problem)
            return False
        batch.reached()
        new = await self._examined(batch, given[:ASKED_AT_ONCE])
        before = len(batch.events)
        # What the answer holds beyond what is missing is not looked at: nobody asked for it. Where the gap
        # lies beside the ends of our graph, the peer goes on behind it through what is known here.
        known = await self._store.events(new, placed=True)
        new = {
            event_id: genuine
            for event_id, genuine in new.items()
            if (event_id not in known or known[event_id].is_outlier)
            and genuine.pdu.depth >= batch.first_depth
        }
        wanted = set(unknown)
        to_visit = list(unknown)
        while to_visit:
            genuine = new.get(to_visit.pop())
            if genuine is not None:
                batch.events[genuine.pdu.event_id] = genuine
                further = [one for one in genuine.pdu.prev_events if one not in wanted]
                wanted.update(further)
                to_visit.extend(further)
        return len(batch.events) > before

    async def _ask_for_state(self, peer: str, batch: RoomBatch, event_id: EventId) -> None:
        try:
            ids = await self._peer_events.state_ids(peer, batch.room_id, event_id)
            batch.reached()
            if len(ids.pdu_ids) + len(ids.auth_chain_ids) > MOST_STATE_EVENTS:
                self._report(f"The state of {batch.room_id} that {peer} gave is larger than any room's.")
                return
            await self._fetch(peer, batch, [event_id])
            everything = [*ids.pdu_ids, *ids.auth_chain_ids]
            unknown = await self._unknown(batch, everything)
            if len(unknown) > SINGLY:
                state = await self._peer_events.state(peer, batch.room_id, event_id)
                given = await self._examined(batch, [*state.pdus, *state.auth_chain], enforce_counts=False)
                batch.outliers |= {one: given[one] for one in unknown if one in given}
                unknown = await self._unknown(batch, everything)
            await self._fetch(peer, batch, unknown[: 10 * SINGLY])
        except PeerError as problem:
            self._report(f"No state for a gap in {batch.room_id}: {problem}")
            batch.failed(problem)
            return
        if batch.is_reached is not False:  # with holes where nobody answered it would be another state
            batch.states[event_id] = ids

    async def fill_auth_events(self, peer: str, batch: RoomBatch) -> None:
        for _ in range(MOST_ROUNDS):
            by_event = {
                event_id: unknown
                for event_id, genuine in (*batch.events.items(), *batch.outliers.items())
                if (unknown := self._auth_outside(batch, genuine))
            }
            known = await self._store.events(set().union(*by_event.values()))
            by_event = {one: left for one, unknown in by_event.items() if (left := unknown - known.keys())}
            if not by_event:
                return
            if not await self._ask_for_auth_events(peer, batch, by_event):
                return

    async def _ask_for_auth_events(
        self, peer: str, batch: RoomBatch, by_event: dict[EventId, set[EventId]]
    ) -> bool:
        wanted = set().union(*by_event.values())
        had = len(batch.outliers)
        event_id = max(by_event, key=lambda one: len(by_event[one]))
        try:
            chain = await self._peer_events.event_auth(peer, batch.room_id, event_id)
            given = await self._examined(batch, chain, enforce_counts=False)
            batch.outliers |= {one: genuine for one, genuine in given.items() if one not in batch.events}
        except PeerError as problem:
            self._report(f"No auth chain of {event_id} in {batch.room_id}: {problem}")
            batch.failed(problem)
        await self._fetch(peer, batch, [one for one in sorted(wanted) if one not in batch.outliers][:SINGLY])
        return len(batch.outliers) > had

    def _auth_outside(self, batch: RoomBatch, genuine: Genuine) -> set[EventId]:
        needed = set(genuine.pdu.auth_events)
        if batch.version.create_event_is_room_id and genuine.pdu.type != "m.room.create":
            needed.add(create_event_id(batch.room_id))
        return needed - batch.events.keys() - batch.outliers.keys()

    async def _unknown(self, batch: RoomBatch, event_ids: Iterable[EventId]) -> list[EventId]:
        wanted = [one for one in dict.fromkeys(event_ids) if one not in batch.outliers]
        # An event of the batch may be part of a state, too: then it is needed before it has its place.
        batch.outliers |= {one: batch.events[one] for one in wanted if one in batch.events}
        wanted = [one for one in wanted if one not in batch.outliers]
        known = await self._store.events(wanted)
        return [one for one in wanted if one not in known]

    async def _fetch(self, peer: str, batch: RoomBatch, event_ids: Collection[EventId]) -> None:
        """One by one; those that cannot be had stay unknown."""
        places = asyncio.Semaphore(IN_PARALLEL)

        async def ask(event_id: EventId) -> Any:
            async with places:
                try:
                    return await self._peer_events.event(peer, event_id)
                except PeerError as problem:
                    self._report(f"No event {event_id}: {problem}")
                    batch.failed(problem)
                    return None

        wanted = await self._unknown(batch, event_ids)
        given = await asyncio.gather(*map(ask, wanted))
        found = await self._examined(batch, [one for one in given if one is not None], enforce_counts=False)
        batch.outliers |= {one: found[one] for one in wanted if one in found}

    async def _examined(
        self, batch: RoomBatch, events: Iterable[Any], *, enforce_counts: bool = True
    ) -> dict[EventId, Genuine]:
        examined = await self._examiner.examine(
            ((event, batch.version) for event in events), enforce_counts=enforce_counts
        )
        found = {}
        for parsed, result in examined:
            if isinstance(result, Dropped):
                if not isinstance(parsed, Malformed):
                    self._report(f"An event for a gap in {batch.room_id} was dropped: {result}")
                continue
            if result.pdu.room_id == batch.room_id:
                found[result.pdu.event_id] = result
        return found
