"""Receives PDUs from other servers: verifies them, fetches missing events, authorises and commits them.

`receive_batch` adds a batch of verified events to the draft of their room, in the order of the event graph.
`EventReceiver` does everything before and after it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cachetools import LRUCache

from federation.client.peer_events import StateIds
from federation.events import CREATE, EventId, Malformed, Pdu, StateKey, parse, room_id_of
from federation.events.graph import missing_references, topological_order
from federation.events.received import Accepted, Dropped, ReceiveResult, Rejected, SoftFailed
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from federation.observer import HomeserverObserver
from federation.rooms.commit import RoomWriter, WriteSession
from federation.rooms.draft import RoomDraft
from federation.rooms.gap_filling import GapFiller, RoomBatch
from federation.rooms.pending_joins import PendingJoins
from federation.rooms.policy_signing import PolicySigner
from federation.rooms.ports import Results
from federation.rooms.receive_checks import VerifiedEvent, needed_for_step_4
from federation.rooms.store import CachedRoom, RoomStore
from federation.rooms.verify_events import EventVerifier
from storage.connect import ConnectionLost
from storage.federation.incoming_transactions import TransactionResponse, fetch_response, insert_response
from storage.rooms.events import fetch_backward_extremities


def event_ids_to_load(batch: RoomBatch) -> set[EventId]:
    """The events that `receive_batch` loads first: those of the batch and their prev_events."""
    prev_events = {prev for event in batch.events.values() for prev in event.pdu.prev_events}
    return prev_events | batch.events.keys()


async def receive_batch(
    draft: RoomDraft, batch: RoomBatch, *, in_timeline: bool = True
) -> dict[EventId, ReceiveResult]:
    """Add the events to the draft and return the result of each. With `in_timeline` false they are older
    history, which is not published."""
    await draft.load(event_ids_to_load(batch), refresh_outliers=True)
    await receive_outliers(draft, batch.outliers)
    await draft.load({one for event in batch.events.values() for one in event.pdu.auth_events})
    results: dict[EventId, ReceiveResult] = {}
    for event_id in topological_order({one: event.pdu.prev_events for one, event in batch.events.items()}):
        results[event_id] = await _receive_event(draft, batch, batch.events[event_id], in_timeline)
    return results


async def receive_outliers(draft: RoomDraft, outliers: Mapping[EventId, VerifiedEvent]) -> None:
    """Add outliers to the draft, each after its auth events."""
    await draft.load(outliers)
    auth_events = {one: needed_for_step_4(event.pdu, draft.version) for one, event in outliers.items()}
    await draft.load({needed for ids in auth_events.values() for needed in ids})
    for event_id in topological_order(auth_events):
        await draft.receive_outlier(outliers[event_id])


async def _receive_event(draft: RoomDraft, batch: RoomBatch, event: VerifiedEvent, in_timeline: bool) -> ReceiveResult:
    pdu = event.pdu
    if draft.is_in_graph(pdu.event_id):
        return draft.known[pdu.event_id].result
    current = await draft.current()
    if pdu.type == "m.room.create" and current.state.get(CREATE, pdu.event_id) != pdu.event_id:
        return Dropped("the room has another create event")
    for prev_event in pdu.prev_events:
        if not draft.is_in_graph(prev_event):
            ids = batch.states.get(prev_event)
            if ids is None or not await _insert_after_gap(draft, batch, prev_event, ids, in_timeline):
                return Dropped(f"its prev_event {prev_event} is not available")
    before = await draft.state_before(pdu.prev_events)
    verdict = await draft.authorise(event, before, current=current if in_timeline else None)
    if not isinstance(verdict, Dropped):
        await draft.insert(pdu, verdict, before, in_timeline=in_timeline)
    return verdict


async def _insert_after_gap(
    draft: RoomDraft, batch: RoomBatch, event_id: EventId, ids: StateIds, in_timeline: bool
) -> bool:
    """Insert the event after a gap, with the state before it as another server has reported it. Returns whether
    that was possible."""
    event = batch.outliers.get(event_id) or batch.events.get(event_id)
    if event is None:
        await draft.load([event_id])
        known = draft.known.get(event_id)
        if known is None or known.pdu.room_id != draft.room_id:
            return False
        event = VerifiedEvent(known.pdu)
    state = await known_state(draft, ids)
    if CREATE not in state:
        return False
    # It is published now: when its own server sends it later, it will already be in the graph. Events older
    # than the history that this server has are neither published nor checked against the current state.
    is_new = in_timeline and event.pdu.depth >= batch.first_depth
    current = await draft.current()
    before = await draft.state_group_for(state, current)
    verdict = await draft.authorise(event, before, current=current if is_new else None)
    if isinstance(verdict, Dropped):
        return False
    await draft.insert(event.pdu, verdict, before, in_timeline=is_new)
    return True


async def known_state(draft: RoomDraft, ids: StateIds) -> dict[StateKey, EventId]:
    """The part of a state reported by another server whose events are known, in this room and not
    rejected."""
    await draft.load(ids.pdu_ids)
    state: dict[StateKey, EventId] = {}
    for event_id in ids.pdu_ids:
        known = draft.known.get(event_id)
        if known is None or known.verdict == "rejected" or known.pdu.room_id != draft.room_id:
            continue
        if known.pdu.key is not None:
            state.setdefault(known.pdu.key, event_id)
    return state


MAX_HISTORY_STARTS: Final = 20
"""Events from which one `backfill` request starts."""
MAX_REFUSALS: Final = 6
"""How often in a row a server's events are refused with 503 because it cannot be reached for the missing
events before them. With common retry schedules that takes some minutes."""
MAX_UNREACHABLE_SERVERS: Final = 1_000


class IncomingTransaction(NamedTuple):
    """A transaction of another server.

    `make_response` takes the results of the events and returns the row that is committed with them. It must have
    no effects, since it is called again when a database connection was lost.
    """

    id: str
    make_response: Callable[[Results], TransactionResponse]


class RepeatedTransaction(NamedTuple):
    """The transaction has been received before; `response` is the stored response."""

    response: bytes


@dataclass(eq=False, slots=True)
class _InProgress:
    """A transaction that is being received: its rooms and, once parsed, its events."""

    room_ids: set[str]
    event_ids: set[EventId] = field(default_factory=set)
    parsed: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class EventReceiver:
    """Receives PDUs of other servers: verifies them, fetches what they need, authorises and commits them."""

    def __init__(
        self,
        server_name: str,
        store: RoomStore,
        writer: RoomWriter,
        verifier: EventVerifier,
        gaps: GapFiller,
        policy: PolicySigner,
        observer: HomeserverObserver | None,
        pending_joins: PendingJoins | None = None,
    ) -> None:
        self._server_name = server_name
        self._store = store
        self._writer = writer
        self._verifier = verifier
        self._gaps = gaps
        self._policy = policy
        self._observer = observer
        self._pending_joins = pending_joins or PendingJoins()
        self._in_progress: list[_InProgress] = []
        self._refusals: LRUCache[str, int] = LRUCache(MAX_UNREACHABLE_SERVERS)

    async def receive(
        self, origin: str, events: Sequence[Any], transaction: IncomingTransaction | None
    ) -> Results | RepeatedTransaction:
        """Receive PDUs, with the transaction that contains them if there is one, and return the result of
        each."""
        progress = _InProgress({room_id for event in events if (room_id := room_id_of(event)) is not None})
        earlier = [one for one in self._in_progress if not one.room_ids.isdisjoint(progress.room_ids)]
        self._in_progress.append(progress)
        try:
            await self._pending_joins.wait_for(progress.room_ids)
            return await self._receive(origin, events, transaction, progress, earlier)
        finally:
            self._in_progress.remove(progress)
            progress.parsed.set()
            progress.done.set()

    async def _receive(
        self,
        origin: str,
        events: Sequence[Any],
        transaction: IncomingTransaction | None,
        progress: "_InProgress",
        earlier: Sequence["_InProgress"],
    ) -> Results | RepeatedTransaction:
        results: dict[EventId, ReceiveResult] = {}
        batches = await self._verified(origin, events, results, progress)
        cached: list[tuple[RoomBatch, CachedRoom]] = []
        for batch in batches.values():
            await self._wait_for(earlier, batch)
            room = self._store.cached_room(batch.room_id)
            await self._gaps.fill(origin, batch, room.view.forward_extremities if room else ())
            if room is not None:
                cached.append((batch, room))
        await self._policy.add_missing_signatures(cached)
        self._refuse_unreachable(origin, batches.values())
        if transaction is not None:
            new_results = await self._append(batches, results, transaction)
            if new_results is not None:
                results.update(new_results)
                self._count(results.values())
                return results
        async with self._writer.session(batches, origin) as session:
            if transaction is not None:
                stored = await fetch_response(session.connection, origin, transaction.id)
                if stored is not None:
                    return RepeatedTransaction(stored)
            await self._load_all(session, batches)
            for room_id, batch in batches.items():
                draft = session.draft(room_id)
                if (await draft.joined_servers()).get(self._server_name):
                    results.update(await receive_batch(draft, batch))
                else:
                    results.update(dict.fromkeys(batch.events, _not_in_room()))
            if transaction is not None:
                await insert_response(session.connection, transaction.make_response(results))
        self._count(results.values())
        return results

    async def _append(
        self,
        batches: Mapping[str, RoomBatch],
        results: Mapping[EventId, ReceiveResult],
        transaction: IncomingTransaction,
    ) -> dict[EventId, ReceiveResult] | None:
        """Write new messages at the head of one room, the most frequent case, with one statement.

        `results` are the results of the transaction's other events. Returns None if the batch needs a
        session, or if the connection was lost and it is unknown whether the statement was committed.
        """
        if len(batches) != 1:
            return None
        [(room_id, batch)] = batches.items()
        new = batch.events.keys()
        if batch.outliers or batch.states or any(map(self._store.cached_event, new)):
            return None
        if any(event.pdu.key is not None for event in batch.events.values()):
            return None
        try:
            async with self._writer.head(room_id) as head:
                if head is None or not (await head.draft.joined_servers()).get(self._server_name):
                    return None
                # Other known events are detected by the statement that writes them.
                if not new.isdisjoint(head.draft.extremities):
                    return None
                head.draft.add_loaded(new, {})
                new_results = await receive_batch(head.draft, batch)
                if not all(isinstance(result, Accepted) for result in new_results.values()):
                    return None
                response = transaction.make_response({**results, **new_results})
                is_written = await self._writer.append(head, response=response)
        except ConnectionLost:
            return None
        return new_results if is_written else None

    async def _load_all(self, session: WriteSession, batches: Mapping[str, RoomBatch]) -> None:
        """Load the events that `receive_batch` needs, for all rooms with one query."""
        wanted = {room_id: event_ids_to_load(batch) for room_id, batch in batches.items()}
        found = await self._store.events(
            {event_id for ids in wanted.values() for event_id in ids}, session.connection, refresh_outliers=True
        )
        for room_id, ids in wanted.items():
            session.draft(room_id).add_loaded(ids, found)

    async def accept(self, origin: str, room_id: str, event: Any) -> Pdu:
        """Receive an event that a server submits for the room, and send it to all other servers of the
        room."""
        room = (await self._store.rooms([room_id])).get(room_id)
        if room is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        ((_, verified),) = await self._verifier.verify([(event, room.view.version)])
        if isinstance(verified, Dropped):
            raise MatrixError("M_FORBIDDEN", f"The event is not accepted: {verified}.", 403)
        pdu = verified.pdu
        if pdu.room_id != room_id:
            raise MatrixError("M_INVALID_PARAM", "The event belongs to another room.")
        batch = RoomBatch(room_id, room.view.version, {pdu.event_id: verified})
        if origin != self._server_name:
            await self._gaps.fill(origin, batch, room.view.forward_extremities)
            self._refuse_unreachable(origin, [batch])
        await self._policy.add_missing_signatures([(batch, room)])
        async with self._writer.session([room_id], origin) as session:
            draft = session.draft(room_id)
            joined = frozenset(await draft.joined_servers())
            if self._server_name not in joined:
                raise MatrixError("M_NOT_FOUND", "This server is not in that room.", 404)
            draft.destinations[pdu.event_id] = joined - {origin, self._server_name}
            result = (await receive_batch(draft, batch)).get(pdu.event_id, _not_in_room())
            if not isinstance(result, Accepted):
                raise MatrixError("M_FORBIDDEN", f"The event is not accepted: {result}", 403)
            if pdu.membership == "join" and origin not in joined:
                await _queue_missed_events(draft, pdu.event_id, origin)
        self._count([result])
        return draft.pdus[pdu.event_id]

    async def fetch_history(self, peer: str, room_id: str, limit: int) -> int:
        room = (await self._store.rooms([room_id])).get(room_id)
        if room is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        async with self._store.connection() as connection:
            oldest = await fetch_backward_extremities(connection, room_id, MAX_HISTORY_STARTS)
        if not oldest:
            return 0
        batch = RoomBatch(room_id, room.view.version)
        await self._gaps.fetch_history(peer, batch, oldest, limit)
        async with self._writer.session([room_id], peer) as session:
            results = await receive_batch(session.draft(room_id), batch, in_timeline=False)
        self._count(results.values())
        return sum(not isinstance(result, Dropped) for result in results.values())

    async def _verified(
        self, origin: str, events: Sequence[Any], results: dict[EventId, ReceiveResult], progress: _InProgress
    ) -> dict[str, RoomBatch]:
        """Verify the events of rooms that are known and whose ACL allows the server, and return them by room.
        The results of all others are added to `results`."""
        by_room = [(event, room_id_of(event)) for event in events]
        rooms = await self._load_rooms({room_id for _, room_id in by_room if room_id is not None})
        admitted = []
        for event, room_id in by_room:
            # "A v12 create event arriving in `/send` has no `room_id`": it belongs to no known room.
            if room_id is None:
                continue
            room = rooms.get(room_id)
            if room is None:
                problem = "this server does not know the room"
            elif not (await self._store.acl(room)).allows(origin):
                problem = "the room's m.room.server_acl denies your server"
            else:
                admitted.append((event, room.view.version))
                continue
            version = room.view.version if room is not None else DEFAULT_ROOM_VERSION
            parsed = parse(event, version)
            if isinstance(parsed, Pdu):
                results[parsed.event_id] = Dropped(problem)
        all_parsed = await self._verifier.parse(admitted)
        progress.event_ids |= {one.event_id for one, _ in all_parsed if isinstance(one, Pdu)}
        progress.parsed.set()
        batches: dict[str, RoomBatch] = {}
        for parsed, verified in await self._verifier.verify_parsed(all_parsed):
            if isinstance(verified, VerifiedEvent):
                pdu = verified.pdu
                version = rooms[pdu.room_id].view.version
                batch = batches.setdefault(pdu.room_id, RoomBatch(pdu.room_id, version))
                batch.events.setdefault(pdu.event_id, verified)
            elif not isinstance(parsed, Malformed):
                event_id = parsed.event_id if isinstance(parsed, Pdu) else parsed.pdu.event_id
                results[event_id] = verified
            elif self._observer is not None:
                self._observer.event_received("dropped")
        # Two copies of an event may differ in unsigned fields. One verified copy is enough.
        for batch in batches.values():
            for event_id in batch.events:
                results.pop(event_id, None)
        return batches

    async def _load_rooms(self, room_ids: set[str]) -> dict[str, CachedRoom]:
        """Load the rooms, cached ones as they are: room versions never change, and a cached ACL that is
        slightly outdated is equivalent to the request having arrived slightly earlier."""
        found = {}
        unknown = []
        for room_id in room_ids:
            room = self._store.cached_room(room_id)
            if room is None:
                unknown.append(room_id)
            else:
                found[room_id] = room
        return found | await self._store.rooms(unknown)

    async def _wait_for(self, earlier: Sequence["_InProgress"], batch: RoomBatch) -> None:
        """Wait for earlier transactions that contain missing prev_events of the batch, instead of fetching
        these. Only earlier transactions are waited for, so that two cannot wait for each other."""
        absent = missing_references((event.pdu.prev_events for event in batch.events.values()), batch.events)
        if not earlier or not absent:
            return
        absent -= (await self._store.events(absent, refresh_outliers=True)).keys()
        for other in earlier:
            if absent and batch.room_id in other.room_ids:
                await other.parsed.wait()
                if not absent.isdisjoint(other.event_ids):
                    await other.done.wait()

    def _refuse_unreachable(self, origin: str, batches: Iterable[RoomBatch]) -> None:
        """Refuse events with 503 if their server could not be reached for the missing events before them, so
        that it sends them again; it would not after a 200. After MAX_REFUSALS the server is assumed to be
        unreachable for good, and the events are handled without the missing ones."""
        answered = {batch.peer_answered for batch in batches}
        if False in answered:
            refusals = self._refusals.get(origin) or 0
            if refusals < MAX_REFUSALS:
                self._refusals[origin] = refusals + 1
                text = "Your server could not be reached for the events before these. Send them again later."
                raise MatrixError("M_UNKNOWN", text, 503)
        elif True in answered:
            self._refusals[origin] = 0

    def _count(self, new_results: Iterable[ReceiveResult]) -> None:
        if self._observer is not None:
            for result in new_results:
                self._observer.event_received(verdict_label(result))


def verdict_label(result: ReceiveResult) -> str:
    match result:
        case Accepted():
            return "accepted"
        case SoftFailed():
            return "soft_failed"
        case Rejected():
            return "rejected"
        case Dropped():
            return "dropped"


async def _queue_missed_events(draft: RoomDraft, join: EventId, server: str) -> None:
    """Send a joining server the events that were sent between its `make_join` and its `send_join`. They are
    parallel to its join in the event graph and were sent only to the servers joined then. In a quiet room the
    server would otherwise not discover them for a long time."""
    parallel = [event_id for event_id in draft.extremities if event_id != join]
    await draft.load(parallel)
    draft.missed.update(dict.fromkeys(parallel, frozenset({server})))


def _not_in_room() -> Dropped:
    return Dropped("this server is not in the room")
