"""Creates local events at the head of a room, so that they form a chain unless the room has really forked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federation.auth_rules import auth_event_keys
from federation.client.errors import PeerRefused
from federation.events import BuildFailure, EventId, Pdu, Signer, Template, build
from federation.events.builder import unsigned_event
from federation.events.format import MAX_OWN_PREV_EVENTS
from federation.events.received import Accepted, Dropped, ReceiveResult
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import is_room_id
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.commit import RoomWriter, WriteSession
from federation.rooms.draft import RoomDraft
from federation.rooms.policy_server import PolicyServer, is_signed, needs_signature
from federation.rooms.policy_signing import PolicySigner
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.store import RoomStore
from federation.state_resolution.state_groups import StateGroup
from storage.concurrency import BackgroundTasks
from storage.database import Connection
from storage.rooms.sent_transactions import TransactionKey, fetch_sent, insert_sent

BATCH_SIZE: Final = 50
"""Queued events of one room that are committed together."""
MAX_QUEUED: Final = 5_000
"""Queued events of one room. Further ones are refused with M_LIMIT_EXCEEDED."""
RETRY_AFTER_MS: Final = 1_000
CLOSE_TIMEOUT: Final = 15.0
"""Seconds for which `close` waits for queued events: longer than the timeout of a policy server."""
MAX_SIGNING_ATTEMPTS: Final = 3
"""Attempts to get the signature of a policy server that is still the room's when the event is committed."""


@dataclass(frozen=True, slots=True)
class NewRoom:
    """A room that is being created, and the connection of the transaction that creates it."""

    connection: Connection
    events: Sequence[Pdu]

    @property
    def room_id(self) -> str:
        return self.events[0].room_id


@dataclass(frozen=True, slots=True)
class _QueuedEvent:
    """An event that waits for its room's next batch."""

    event: NewEvent
    transaction_id: str | None
    result: "asyncio.Future[Pdu]"

    @property
    def sent(self) -> TransactionKey | None:
        """The key under which the event is found when it is sent again."""
        return None if self.transaction_id is None else (self.event.sender, self.transaction_id)


@dataclass(slots=True)
class _BatchResult:
    """The result of each event of a batch, by its index."""

    events: dict[int, Pdu] = field(default_factory=dict)
    refused: dict[int, Exception] = field(default_factory=dict)
    new: int = 0
    """The number of events that had not been sent before."""
    sent: dict[TransactionKey, EventId] = field(default_factory=dict)
    """The new events that have a transaction id."""


class _NeedsSignature(Exception):
    """The event needs the signature of the room's policy server. Nothing was committed."""

    def __init__(self, pdu: Pdu, version: RoomVersion, policy: PolicyServer) -> None:
        super().__init__(policy.server)
        self.pdu = pdu
        self.version = version
        self.policy = policy


class LocalEventSender:
    """Creates local events, one batch at a time per room, and creates rooms."""

    def __init__(
        self,
        server_name: str,
        store: RoomStore,
        writer: RoomWriter,
        signer: Callable[[], Signer],
        now_ms: Callable[[], int],
        observer: HomeserverObserver | None,
        policy_signing: PolicySigner,
    ) -> None:
        self._policy = policy_signing
        self._store = store
        self._server_name = server_name
        self._writer = writer
        self._signer = signer
        self._now_ms = now_ms
        self._observer = observer
        self._queues: dict[str, list[_QueuedEvent]] = {}
        # One task for each room that has queued events.
        self._workers = BackgroundTasks()
        self._is_closing = False

    async def send(self, room_id: str, event: NewEvent, transaction_id: str | None = None) -> Pdu:
        """Queue an event and return it once it is committed. Cancelling the call does not cancel the event.

        If the sender has used the transaction id in this room before, the event sent then is returned, even
        if the content differs.
        """
        if self._store.cached_room(room_id) is None:
            _require_room_id(room_id)
        if self._is_closing:
            raise _shutting_down()
        waiting = self._queues.get(room_id)
        if waiting is not None and len(waiting) >= MAX_QUEUED:
            text = "Too many events are queued for this room. Send the event again later."
            raise limit_exceeded(text, 429, RETRY_AFTER_MS)
        one = _QueuedEvent(event, transaction_id, asyncio.get_running_loop().create_future())
        if waiting is None:
            self._queues[room_id] = [one]
            self._workers.spawn("local events", self._process_queue(room_id))
        else:
            waiting.append(one)
        return await one.result

    @contextlib.asynccontextmanager
    async def create(
        self, version: RoomVersion, events: Sequence[NewEvent], room_id: str | None
    ) -> AsyncIterator[NewRoom]:
        """Create a room from these events. It is committed when the context ends."""
        first = events[0]
        assert first.type == "m.room.create", "a room begins with its create event"
        assert (room_id is None) == version.create_event_is_room_id, "the room version decides the room id"
        content = {**first.content, "room_version": version.id}
        if version.creator_in_content:
            content["creator"] = first.sender
        template = Template(first.type, first.sender, content, self._time_of(first), room_id=room_id, state_key="")
        while True:
            create = build(template, version, self._signer())
            if isinstance(create, BuildFailure):
                raise MatrixError("M_BAD_JSON", f"The room cannot be created: {create.problem}.")
            async with self._writer.session([create.room_id], None) as session:
                if create.room_id not in session.drafts:
                    yield await self._insert_events(session, create, version, events[1:])
                    return
            if room_id is not None:
                raise MatrixError("M_ROOM_IN_USE", "A room with this id already exists.", 409)
            # Where the create event is the room id, two identical requests in the same millisecond would
            # create the same room.
            template = replace(template, origin_server_ts=template.origin_server_ts + 1)

    async def _insert_events(
        self, session: WriteSession, create: Pdu, version: RoomVersion, events: Sequence[NewEvent]
    ) -> NewRoom:
        draft = await session.new_room(create.room_id, version)
        made = [await self._insert(draft, create, None)]
        for event in events:
            made.append(await self._make(draft, event))  # noqa: PERF401 - each follows the one before
        return NewRoom(session.connection, made)

    async def prepare(self, room_id: str, event: NewEvent) -> dict[str, Any]:
        """Return the event as it would be created now, without hashes and signatures."""
        _require_room_id(room_id)
        async with self._writer.session([room_id], None) as session:
            draft = session.draft(room_id)
            template = await self._template(draft, event)
            # Another server will sign the event. The auth rules do not depend on the signature.
            pdu = build(template, draft.version, self._signer())
            if isinstance(pdu, BuildFailure):
                raise MatrixError("M_BAD_JSON", f"The event cannot be created: {pdu.problem}.")
            before = await draft.state_before(template.prev_events)
            _require_accepted(await draft.authorise(VerifiedEvent(pdu), before, current=None))
        return unsigned_event(template)

    async def close(self) -> None:
        """Commit the queued events, for at most CLOSE_TIMEOUT seconds, and refuse new ones."""
        self._is_closing = True
        await self._workers.drain(CLOSE_TIMEOUT)
        await self._workers.close()

    async def _process_queue(self, room_id: str) -> None:
        batch: list[_QueuedEvent] = []
        waiting = self._queues[room_id]
        try:
            while waiting:
                batch = waiting[:BATCH_SIZE]
                del waiting[:BATCH_SIZE]
                await self._commit(room_id, batch)
        finally:
            del self._queues[room_id]
            for one in (*batch, *waiting):
                if not one.result.done():
                    one.result.set_exception(_shutting_down())

    async def _commit(self, room_id: str, batch: Sequence[_QueuedEvent]) -> None:
        """Commit all events of the batch that the auth rules allow, together. The others fail
        individually."""
        try:
            made = await self._append(room_id, batch) or await self._write_in_session(room_id, batch)
        except _NeedsSignature as needed:
            if len(batch) > 1:
                for one in batch:
                    await self._commit(room_id, [one])
                return
            made = await self._write_signed(room_id, batch[0], needed)
        except Exception as failed:
            made = _refuse_batch(batch, failed)
        for number, one in enumerate(batch):
            if one.result.done():
                continue  # the caller of `send` was cancelled
            if number in made.refused:
                one.result.set_exception(made.refused[number])
            else:
                one.result.set_result(made.events[number])
        if self._observer is not None:
            for _ in range(made.new):
                self._observer.event_sent()

    async def _append(self, room_id: str, batch: Sequence[_QueuedEvent]) -> _BatchResult | None:
        """Write a batch of messages with one statement, which is possible if all are allowed and new. None if
        it was not possible; nothing was written."""
        if any(one.event.state_key is not None or one.event.redacts is not None for one in batch):
            return None
        async with self._writer.head(room_id) as head:
            if head is None:
                return None
            # Only a session may refuse an event, since the cached room may be outdated.
            try:
                made = await self._make_batch(head.draft, batch, {})
            except _NeedsSignature:
                return None
            if made.refused or not await self._writer.append(head, sent=made.sent):
                return None
            return made

    async def _write_in_session(
        self, room_id: str, batch: Sequence[_QueuedEvent], signed: Pdu | None = None
    ) -> _BatchResult:
        async with self._writer.session([room_id], None) as session:
            draft = session.draft(room_id)
            named = {one.sent for one in batch if one.sent is not None}
            before = await fetch_sent(session.connection, room_id, named)
            await draft.load(before.values())
            made = await self._make_batch(draft, batch, before, signed)
            is_new = await insert_sent(session.connection, room_id, made.sent)
            assert is_new, "events sent before were looked up under the room's lock"
        return made

    async def _write_signed(self, room_id: str, one: _QueuedEvent, needed: _NeedsSignature) -> _BatchResult:
        """Send an event in a room with a policy server. The server is asked to sign it while nothing is
        locked and no connection is held; if the room has another policy server afterwards, that one is
        asked."""
        for _ in range(MAX_SIGNING_ATTEMPTS):
            try:
                signed = await self._policy.sign(needed.pdu, needed.version, needed.policy)
                return await self._write_in_session(room_id, [one], signed)
            except _NeedsSignature as again:
                needed = again
            except PeerRefused as refused:
                text = f"The room's policy server refuses the event: {refused.text}"
                return _refuse_batch([one], MatrixError(refused.errcode or "M_FORBIDDEN", text, 403))
            except Exception as failed:
                return _refuse_batch([one], failed)
        text = "The room's policy server keeps changing. Send the event again later."
        return _refuse_batch([one], MatrixError("M_UNKNOWN", text, 503))

    async def _make_batch(
        self,
        draft: RoomDraft,
        batch: Sequence[_QueuedEvent],
        before: Mapping[TransactionKey, EventId],
        signed: Pdu | None = None,
    ) -> _BatchResult:
        """`before` holds the events that were sent before with the same transaction ids. `signed` is the only
        event of the batch, signed by the room's policy server."""
        made = _BatchResult()
        for number, one in enumerate(batch):
            earlier = None if one.sent is None else before.get(one.sent) or made.sent.get(one.sent)
            if earlier is not None:
                made.events[number] = draft.pdus[earlier]
                continue
            try:
                pdu = made.events[number] = await self._make(draft, one.event, signed)
            except MatrixError as refused:
                made.refused[number] = refused
                continue
            made.new += 1
            if one.sent is not None:
                made.sent[one.sent] = pdu.event_id
        return made

    async def _make(self, draft: RoomDraft, event: NewEvent, signed: Pdu | None = None) -> Pdu:
        policy = await draft.policy_server()
        if policy is not None and policy.server == self._server_name:
            policy = None
        if signed is not None and (policy is None or is_signed(signed, draft.version, policy)):
            # Other events may have been committed since it was created.
            return await self._insert(draft, signed, await draft.current())
        template = await self._template(draft, event)
        pdu = build(template, draft.version, self._signer())
        if isinstance(pdu, BuildFailure):
            raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {pdu.problem}.")
        if policy is not None and needs_signature(pdu):
            before = await draft.state_before(pdu.prev_events)
            _require_accepted(await draft.authorise(VerifiedEvent(pdu), before, current=None))
            raise _NeedsSignature(pdu, draft.version, policy)
        return await self._insert(draft, pdu, None)

    async def _template(self, draft: RoomDraft, event: NewEvent) -> Template:
        prev_events = await self._prev_events(draft)
        before = await draft.state_before(prev_events)
        template = Template(
            event.type,
            event.sender,
            event.content,
            self._time_of(event),
            room_id=draft.room_id,
            state_key=event.state_key,
            redacts=event.redacts,
            prev_events=prev_events,
            prev_depths=[draft.pdus[event_id].depth for event_id in prev_events],
        )
        keys = auth_event_keys(template, draft.version)
        return replace(
            template, auth_events=[event_id for key in keys if (event_id := before.state.get(key)) is not None]
        )

    def _time_of(self, event: NewEvent) -> int:
        return self._now_ms() if event.ts is None else event.ts

    async def _prev_events(self, draft: RoomDraft) -> Sequence[EventId]:
        """All forward extremities, so that the event merges them; the deepest ones if there are too many."""
        extremities = draft.extremities
        await draft.load(extremities)
        if len(extremities) <= MAX_OWN_PREV_EVENTS:
            return extremities
        return sorted(extremities, key=lambda event_id: -draft.pdus[event_id].depth)[:MAX_OWN_PREV_EVENTS]

    async def _insert(self, draft: RoomDraft, pdu: Pdu, current: StateGroup | None) -> Pdu:
        """`current` is None if the event follows all forward extremities of the room."""
        before = await draft.state_before(pdu.prev_events)
        verdict = await draft.authorise(VerifiedEvent(pdu), before, current=current)
        _require_accepted(verdict)
        assert not isinstance(verdict, Dropped), "a dropped event was refused above"
        # "Servers joined in the state before the event": the server of a banned user still receives the ban.
        draft.destinations[pdu.event_id] = frozenset(await draft.joined_servers()) - {self._server_name}
        await draft.insert(pdu, verdict, before)
        return pdu


def _shutting_down() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This server is shutting down. Send the event again later.", 503)


def _refuse_batch(batch: Sequence[_QueuedEvent], problem: Exception) -> _BatchResult:
    return _BatchResult(refused=dict.fromkeys(range(len(batch)), problem))


def _require_room_id(room_id: str) -> None:
    """Refuse an invalid room id before it is looked up: Postgres accepts no text with NUL."""
    if not is_room_id(room_id):
        raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)


def _require_accepted(verdict: ReceiveResult) -> None:
    if not isinstance(verdict, Accepted):
        raise MatrixError("M_FORBIDDEN", f"The room's auth rules do not allow the event: {verdict}", 403)
