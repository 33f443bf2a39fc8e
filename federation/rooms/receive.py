"""Receives the PDUs of a transaction: loads and fetches what they need, judges, commits, and only then
answers.

Takes a batch of events into a room's draft: each is judged where it stands.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cachetools import LRUCache

from federation.client.peer_events import StateIds
from federation.events import CREATE, EventId, Malformed, Pdu, StateKey, parse, room_id_of
from federation.events.graph import in_order, missing
from federation.events.received import Accepted, Dropped, Receipt, Rejected, SoftFailed
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from federation.observer import HomeserverObserver
from federation.rooms.commit import RoomWriting, Session
from federation.rooms.draft import RoomDraft
from federation.rooms.gap_filling import GapFiller, RoomBatch
from federation.rooms.pending_joins import Arrivals
from federation.rooms.policy_signing import PolicySigning
from federation.rooms.ports import Results
from federation.rooms.receive_checks import Genuine, needed_for_step_4
from federation.rooms.store import RoomMemory, RoomStore
from federation.rooms.verify_events import EventExaminer
from storage.connect import ConnectionLost
from storage.federation.incoming_transactions import TransactionResponse, fetch_response, insert_response
from storage.rooms.events import fetch_backward_extremities


def must_have_place(batch: RoomBatch) -> set[EventId]:
    """What `take_in` looks up first: the events themselves and those that they follow."""
    followed = {prev for genuine in batch.events.values() for prev in genuine.pdu.prev_events}
    return followed | batch.events.keys()


async def take_in(draft: RoomDraft, batch: RoomBatch, *, in_timeline: bool = True) -> dict[EventId, Receipt]:
    """What became of each event. With `in_timeline` false they are history that is told to nobody."""
    await draft.load(must_have_place(batch), placed=True)
    await take_outliers(draft, batch.outliers)
    await draft.load({one for genuine in batch.events.values() for one in genuine.pdu.auth_events})
    results: dict[EventId, Receipt] = {}
    for event_id in in_order({one: genuine.pdu.prev_events for one, genuine in batch.events.items()}):
        results[event_id] = await _take_one(draft, batch, batch.events[event_id], in_timeline)
    return results


async def take_outliers(draft: RoomDraft, outliers: Mapping[EventId, Genuine]) -> None:
    """Those on which others rest come first."""
    await draft.load(outliers)
    rests_on = {one: needed_for_step_4(genuine.pdu, draft.version) for one, genuine in outliers.items()}
    await draft.load({needed for ids in rests_on.values() for needed in ids})
    for event_id in in_order(rests_on):
        await draft.take_outlier(outliers[event_id])


async def _take_one(draft: RoomDraft, batch: RoomBatch, genuine: Genuine, in_timeline: bool) -> Receipt:
    pdu = genuine.pdu
    if draft.has_place(pdu.event_id):
        return draft.known[pdu.event_id].receipt
    current = await draft.current()
    if pdu.type == "m.room.create" and current.state.get(CREATE, pdu.event_id) != pdu.event_id:
        return Dropped("the room has another create event")
    for prev_event in pdu.prev_events:
        if not draft.has_place(prev_event):
            ids = batch.states.get(prev_event)
            if ids is None or not await _place_behind_gap(draft, batch, prev_event, ids, in_timeline):
                return Dropped(f"{prev_event}, which it follows, is not to be had")
    before = await draft.state_before(pdu.prev_events)
    verdict = await draft.judge(genuine, before, current=current if in_timeline else None)
    if not isinstance(verdict, Dropped):
        await draft.place(pdu, verdict, before, in_timeline=in_timeline)
    return verdict


async def _place_behind_gap(
    draft: RoomDraft, batch: RoomBatch, event_id: EventId, ids: StateIds, in_timeline: bool
) -> bool:
    """Give an event its place of which another server has told the state before it."""
    genuine = batch.outliers.get(event_id) or batch.events.get(event_id)
    if genuine is None:
        await draft.load([event_id])
        known = draft.known.get(event_id)
        if known is None or known.pdu.room_id != draft.room_id:
            return False
        genuine = Genuine(known.pdu)
    state = await state_of(draft, ids)
    if CREATE not in state:
        return False
    # When its own server sends it later it has its place already: so this is when others hear of it. To what
    # lies before the history that is known here it does not matter what the rules say today.
    is_news = in_timeline and genuine.pdu.depth >= batch.first_depth
    current = await draft.current()
    before = await draft.group_of(state, current)
    verdict = await draft.judge(genuine, before, current=current if is_news else None)
    if isinstance(verdict, Dropped):
        return False
    await draft.place(genuine.pdu, verdict, before, in_timeline=is_news)
    return True


async def state_of(draft: RoomDraft, ids: StateIds) -> dict[StateKey, EventId]:
    """The state that another server names, as far as its events are known, of this room and not rejected."""
    await draft.load(ids.pdu_ids)
    state: dict[StateKey, EventId] = {}
    for event_id in ids.pdu_ids:
        known = draft.known.get(event_id)
        if known is None or known.verdict == "rejected" or known.pdu.room_id != draft.room_id:
            continue
        if known.pdu.key is not None:
            state.setdefault(known.pdu.key, event_id)
    return state


MOST_STARTS: Final = 20
"""Events from which history is asked for at once."""
MOST_REFUSALS: Final = 6
"""How often in a row a server is sent away that follows what we lack and cannot be asked for it. With the
usual schedules of retrying that is some minutes."""
MOST_UNREACHED: Final = 1_000


class Transaction(NamedTuple):
    """A transaction of another server. `answered` is what is written together with its events, by what became
    of them; it has no effect of its own, and may be asked again when a connection was lost."""

    id: str
    answered: Callable[[Results], TransactionResponse]


class Repeated(NamedTuple):
    """The transaction has been received before, and this was answered."""

    answer: bytes


@dataclass(eq=False, slots=True)
class _UnderWay:
    """A transaction that is being received: its rooms, and, once they are known, its events."""

    room_ids: set[str]
    event_ids: set[EventId] = field(default_factory=set)
    parsed: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Reception:
    def __init__(
        self,
        server_name: str,
        store: RoomStore,
        writing: RoomWriting,
        examiner: EventExaminer,
        gaps: GapFiller,
        policy: PolicySigning,
        observer: HomeserverObserver | None,
        arrivals: Arrivals | None = None,
    ) -> None:
        self._server_name = server_name
        self._store = store
        self._writing = writing
        self._examiner = examiner
        self._gaps = gaps
        self._policy = policy
        self._observer = observer
        self._arrivals = arrivals or Arrivals()
        self._under_way: list[_UnderWay] = []
        self._refusals: LRUCache[str, int] = LRUCache(MOST_UNREACHED)

    async def receive(
        self,
        origin: str,
        events: Sequence[Any],
        transaction: Transaction | None,
    ) -> Results | Repeated:
        under_way = _UnderWay({room_id for event in events if (room_id := room_id_of(event)) is not None})
        earlier = [one for one in self._under_way if not one.room_ids.isdisjoint(under_way.room_ids)]
        self._under_way.append(under_way)
        try:
            await self._arrivals.settled(under_way.room_ids)
            return await self._receive(origin, events, transaction, under_way, earlier)
        finally:
            self._under_way.remove(under_way)
            under_way.parsed.set()
            under_way.done.set()

    async def _receive(
        self,
        origin: str,
        events: Sequence[Any],
        transaction: Transaction | None,
        under_way: "_UnderWay",
        earlier: Sequence["_UnderWay"],
    ) -> Results | Repeated:
        results: dict[EventId, Receipt] = {}
        batches = await self._examined(origin, events, results, under_way)
        remembered: list[tuple[RoomBatch, RoomMemory]] = []
        for batch in batches.values():
            await self._wait_for(earlier, batch)
            memory = self._store.remembered_room(batch.room_id)
            await self._gaps.fill(origin, batch, memory.view.forward_extremities if memory else ())
            if memory is not None:
                remembered.append((batch, memory))
        await self._policy.sign_missing(remembered)
        self._refuse_unreached(origin, batches.values())
        if transaction is not None:
            receipts = await self._append(batches, results, transaction)
            if receipts is not None:
                results.update(receipts)
                self._count(results.values())
                return results
        async with self._writing.session(batches, origin) as session:
            if transaction is not None:
                answer = await fetch_response(session.connection, origin, transaction.id)
                if answer is not None:
                    return Repeated(answer)
            await self._look_up(session, batches)
            for room_id, batch in batches.items():
                draft = session.room(room_id)
                if (await draft.joined()).get(self._server_name):
                    results.update(await take_in(draft, batch))
                else:
                    results.update(dict.fromkeys(batch.events, _elsewhere()))
            if transaction is not None:
                await insert_response(session.connection, transaction.answered(results))
        self._count(results.values())
        return results

    async def _append(
        self, batches: Mapping[str, RoomBatch], results: Mapping[EventId, Receipt], transaction: Transaction
    ) -> dict[EventId, Receipt] | None:
        """Write new messages at the head of one room, which is what comes nearly always, by one statement.
        `results` are those of other events of the transaction. None: there is more to it and nothing has been
        written, or it is unknown whether it was; a session shows which."""
        if len(batches) != 1:
            return None
        [(room_id, batch)] = batches.items()
        new = batch.events.keys()
        if batch.outliers or batch.states or any(map(self._store.remembered_event, new)):
            return None
        if any(genuine.pdu.key is not None for genuine in batch.events.values()):
            return None
        try:
            async with self._writing.head(room_id) as head:
                if head is None or not (await head.draft.joined()).get(self._server_name):
                    return None
                # Whether they are new is seen when they are written. What the room ends with is known.
                if not new.isdisjoint(head.draft.extremities):
                    return None
                head.draft.learn(new, {})
                receipts = await take_in(head.draft, batch)
                if not all(isinstance(receipt, Accepted) for receipt in receipts.values()):
                    return None
                answered = transaction.answered({**results, **receipts})
                is_written = await self._writing.append(head, answered=answered)
        except ConnectionLost:
            return None
        return receipts if is_written else None

    async def _look_up(self, session: Session, batches: Mapping[str, RoomBatch]) -> None:
        """For all rooms at once what each would look up by itself."""
        wanted = {room_id: must_have_place(batch) for room_id, batch in batches.items()}
        found = await self._store.events(
            {event_id for ids in wanted.values() for event_id in ids}, session.connection, placed=True
        )
        for room_id, ids in wanted.items():
            session.room(room_id).learn(ids, found)

    async def accept(self, origin: str, room_id: str, event: Any) -> Pdu:
        """One event that a server hands us for the room, to be sent on to all others."""
        memory = (await self._store.rooms([room_id])).get(room_id)
        if memory is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        ((_, examined),) = await self._examiner.examine([(event, memory.view.version)])
        if isinstance(examined, Dropped):
            raise MatrixError("M_FORBIDDEN", f"The event is refused: {examined}.", 403)
        pdu = examined.pdu
        if pdu.room_id != room_id:
            raise MatrixError("M_INVALID_PARAM", "The event is of another room.")
        batch = RoomBatch(room_id, memory.view.version, {pdu.event_id: examined})
        if origin != self._server_name:
            await self._gaps.fill(origin, batch, memory.view.forward_extremities)
            self._refuse_unreached(origin, [batch])
        await self._policy.sign_missing([(batch, memory)])
        async with self._writing.session([room_id], origin) as session:
            draft = session.room(room_id)
            joined = frozenset(await draft.joined())
            if self._server_name not in joined:
                raise MatrixError("M_NOT_FOUND", "This server is not in that room.", 404)
            draft.destinations[pdu.event_id] = joined - {origin, self._server_name}
            receipt = (await take_in(draft, batch)).get(pdu.event_id, _elsewhere())
            if not isinstance(receipt, Accepted):
                raise MatrixError("M_FORBIDDEN", f"The event is refused: {receipt}", 403)
            if pdu.membership == "join" and origin not in joined:
                await _send_missed(draft, pdu.event_id, origin)
        self._count([receipt])
        return draft.pdus[pdu.event_id]

    async def fetch_history(self, peer: str, room_id: str, limit: int) -> int:
        memory = (await self._store.rooms([room_id])).get(room_id)
        if memory is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        async with self._store.connection() as connection:
            oldest = await fetch_backward_extremities(connection, room_id, MOST_STARTS)
        if not oldest:
            return 0
        batch = RoomBatch(room_id, memory.view.version)
        await self._gaps.fetch_history(peer, batch, oldest, limit)
        async with self._writing.session([room_id], peer) as session:
            results = await take_in(session.room(room_id), batch, in_timeline=False)
        self._count(results.values())
        return sum(not isinstance(receipt, Dropped) for receipt in results.values())

    async def _examined(
        self,
        origin: str,
        events: Sequence[Any],
        results: dict[EventId, Receipt],
        under_way: _UnderWay,
    ) -> dict[str, RoomBatch]:
        """The events of rooms that are known and open to the server, by room; others have their result."""
        by_room = [(event, room_id_of(event)) for event in events]
        memories = await self._memories({room_id for _, room_id in by_room if room_id is not None})
        admitted = []
        for event, room_id in by_room:
            # "A v12 create event arriving in `/send` has no `room_id`": there is nothing it could belong to.
            if room_id is None:
                continue
            memory = memories.get(room_id)
            if memory is None:
                problem = "this server does not know the room"
            elif not (await self._store.acl(memory)).allows(origin):
                problem = "the room's m.room.server_acl keeps your server out"
            else:
                admitted.append((event, memory.view.version))
                continue
            version = memory.view.version if memory is not None else DEFAULT_ROOM_VERSION
            parsed = parse(event, version)
            if isinstance(parsed, Pdu):
                results[parsed.event_id] = Dropped(problem)
        all_parsed = await self._examiner.parse(admitted)
        under_way.event_ids |= {one.event_id for one, _ in all_parsed if isinstance(one, Pdu)}
        under_way.parsed.set()
        batches: dict[str, RoomBatch] = {}
        for parsed, examined in await self._examiner.check(all_parsed):
            if isinstance(examined, Genuine):
                pdu = examined.pdu
                version = memories[pdu.room_id].view.version
                batch = batches.setdefault(pdu.room_id, RoomBatch(pdu.room_id, version))
                batch.events.setdefault(pdu.event_id, examined)
            elif not isinstance(parsed, Malformed):
                event_id = parsed.event_id if isinstance(parsed, Pdu) else parsed.pdu.event_id
                results[event_id] = examined
            elif self._observer is not None:
                self._observer.event_received("dropped")
        # Of two copies under one id, which differ in what nobody has signed, a genuine one is enough.
        for batch in batches.values():
            for event_id in batch.events:
                results.pop(event_id, None)
        return batches

    async def _memories(self, room_ids: set[str]) -> dict[str, RoomMemory]:
        """As remembered: versions never change, and an ACL of a moment ago is as good as the order in which
        two requests arrive."""
        found = {}
        unknown = []
        for room_id in room_ids:
            memory = self._store.remembered_room(room_id)
            if memory is None:
                unknown.append(room_id)
            else:
                found[room_id] = memory
        return found | await self._store.rooms(unknown)

    async def _wait_for(self, earlier: Sequence["_UnderWay"], batch: RoomBatch) -> None:
        """What another transaction is bringing at this moment need not be asked for. Only those that came
        before are waited for, so that no two wait for each other."""
        absent = missing((genuine.pdu.prev_events for genuine in batch.events.values()), batch.events)
        if not earlier or not absent:
            return
        absent -= (await self._store.events(absent, placed=True)).keys()
        for other in earlier:
            if absent and batch.room_id in other.room_ids:
                await other.parsed.wait()
                if not absent.isdisjoint(other.event_ids):
                    await other.done.wait()

    def _refuse_unreached(self, origin: str, batches: Iterable[RoomBatch]) -> None:
        """Answered with 200, events that we cannot take in for want of others would not come again. So they
        are to come again, until it looks as if we shall never reach their server."""
        reached = {batch.is_reached for batch in batches}
        if False in reached:
            refusals = self._refusals.get(origin) or 0
            if refusals < MOST_REFUSALS:
                self._refusals[origin] = refusals + 1
                text = "Your server could not be asked for what lies before these events: send them again."
                raise MatrixError("M_UNKNOWN", text, 503)
        elif True in reached:
            self._refusals[origin] = 0

    def _count(self, receipts: Iterable[Receipt]) -> None:
        if self._observer is not None:
            for receipt in receipts:
                self._observer.event_received(label(receipt))


def label(receipt: Receipt) -> str:
    match receipt:
        case Accepted():
            return "accepted"
        case SoftFailed():
            return "soft_failed"
        case Rejected():
            return "rejected"
        case Dropped():
            return "dropped"


async def _send_missed(draft: RoomDraft, join: EventId, server: str) -> None:
    """What happened after the server had asked where the room ends, and before it came: it stands beside its
    join, not before it, and went to those who were there. In a quiet room nothing that follows would lead to
    it for a long time."""
    beside = [event_id for event_id in draft.extremities if event_id != join]
    await draft.load(beside)
    draft.missed.update(dict.fromkeys(beside, frozenset({server})))


def _elsewhere() -> Dropped:
    return Dropped("this server is not in the room")
