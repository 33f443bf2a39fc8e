"""Writes events to rooms. Only one writer at a time writes to a room, across all processes on the database.

`RoomWriter.append` writes messages at the head of a room with one statement. `RoomWriter.session` is the
general transaction; it writes all its rooms together, with a few statements. Both end in `_publish`.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import structlog

from federation.events import EventId, Pdu, StateKey
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.message_content import relations_of
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.draft import RoomDraft
from federation.rooms.ports import CommittedEvent
from federation.rooms.receive_checks import KnownEvent
from federation.rooms.store import CachedRoom, RoomStore
from federation.rooms.stream import RoomStream
from federation.state_resolution.state_groups import StateGroup, StoredState, state_changes
from storage.concurrency import KeyedLock
from storage.database import Connection, Database
from storage.federation.incoming_transactions import TransactionResponse
from storage.federation.outbox import QueuedPdu, queue_pdus
from storage.rooms import stream as room_stream
from storage.rooms.append import MessageBatch, append
from storage.rooms.events import EventRow, clamp_timestamp, insert_redactions, insert_relations, write_events
from storage.rooms.rooms import (
    CurrentStateRow,
    RoomRow,
    StateGroupRow,
    insert_room,
    insert_state_groups,
    lock_rooms,
    update_rooms,
    write_current_state,
)
from storage.rooms.sent_transactions import TransactionKey
from storage.rooms.stream import Kind, StreamRow


class OutboxQueue(Protocol):
    """The part of `federation.outbox.outbox.Outbox` that rooms need. The outbox imports rooms, not vice
    versa."""

    def queue_entries(self, committed: Sequence[CommittedEvent]) -> list[tuple[str, EventId]]:
        """Return pairs of destination server and event, in the order of the events."""
        ...

    def notify_queued(self, committed: Sequence[CommittedEvent], places: Sequence[QueuedPdu]) -> None:
        """Notify the outbox that the events are committed, at these positions in its queues."""
        ...


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What to cache and publish once the transaction has been committed."""

    rooms: Sequence[CachedRoom]
    committed: Sequence[CommittedEvent]
    stream_rows: Sequence[StreamRow]
    """The new entries of the stream."""


async def write_drafts(connection: Connection, drafts: Iterable[RoomDraft], origin: str | None) -> CommitResult:
    groups: list[StateGroupRow] = []
    events: list[EventRow] = []
    updated: list[RoomRow] = []
    entries: list[CurrentStateRow] = []
    removed: list[tuple[str, str, str]] = []
    stream_rows: list[tuple[str, str, Kind]] = []
    redactions: list[tuple[str, str]] = []
    relations: list[tuple[str, str, str]] = []
    rooms: list[CachedRoom] = []
    committed: list[CommittedEvent] = []
    for draft in drafts:
        if not draft.written:
            continue
        room, changed = await _head(draft)
        rooms.append(room)
        row = _room_row(room)
        if draft.is_new:
            if not await insert_room(connection, row):
                # A row that does not exist yet cannot be locked, so another process may have inserted it.
                raise MatrixError("M_ROOM_IN_USE", "A room with this id already exists.", 409)
        else:
            updated.append(row)
        groups += [_group_row(draft.room_id, *group) for group in draft.new_groups.values()]
        events += map(event_row, draft.written.values())
        news = [event.pdu.event_id for event in draft.timeline]
        stream_rows += [(draft.room_id, event_id, "timeline") for event_id in news]
        for key, (before, after) in changed.items():
            if after is None:
                removed.append((draft.room_id, *key))
                assert before is not None, "only an existing state entry can be removed"
                stream_rows.append((draft.room_id, before, "unset"))
                continue
            entries.append(_state_row(draft.room_id, key, draft.pdus[after]))
            if after not in news and not draft.is_new:
                stream_rows.append((draft.room_id, after, "state"))
        for event in draft.written.values():
            if event.verdict != "accepted" or event.is_outlier:
                continue
            target = event.pdu.redacts(draft.version)
            if target is not None:
                redactions.append((target, event.pdu.event_id))
            relations += _relations(event)
        for event in draft.timeline:
            sent_to = draft.destinations.get(event.pdu.event_id, frozenset())
            committed.append(CommittedEvent(event.pdu, draft.version, origin, sent_to))
        for event_id, servers in draft.missed.items():
            committed.append(CommittedEvent(draft.pdus[event_id], draft.version, None, servers))
    await insert_state_groups(connection, groups)
    await write_events(connection, events)
    await write_current_state(connection, entries, removed)
    await update_rooms(connection, updated)
    await insert_redactions(connection, redactions)
    await insert_relations(connection, relations)
    positions = await room_stream.append(connection, stream_rows)
    rows = [StreamRow(position, *entry) for position, entry in zip(positions, stream_rows, strict=True)]
    return CommitResult(rooms, committed, rows)


async def as_messages(
    draft: RoomDraft,
    origin: str | None,
    queue: OutboxQueue,
    sent: Mapping[TransactionKey, EventId],
    response: TransactionResponse | None,
) -> tuple[MessageBatch, CommitResult] | None:
    """Return the draft's messages in the form that one statement writes. None if the draft has changed more
    than that: its state, or its events include a redaction or an event outside the timeline."""
    events = list(draft.written.values())
    room, changed = await _head(draft)
    if (
        draft.new_groups
        or changed
        or room.view.state_group != draft.room.view.state_group
        or [event.pdu.event_id for event in draft.timeline] != list(draft.written)
        or any(event.pdu.redacts(draft.version) is not None for event in events)
    ):
        return None
    committed = [
        CommittedEvent(event.pdu, draft.version, origin, draft.destinations.get(event.pdu.event_id, frozenset()))
        for event in events
    ]
    messages = MessageBatch(
        draft.room_id,
        draft.room.view.generation,
        room.view.forward_extremities,
        [event_row(event) for event in events],
        [relation for event in events for relation in _relations(event)],
        sent,
        queue.queue_entries(committed),
        response,
    )
    return messages, CommitResult([room], committed, ())


def update_caches(store: RoomStore, drafts: Iterable[RoomDraft], result: CommitResult) -> None:
    """Called after the commit, since rolled back events must not be cached."""
    for draft in drafts:
        for group, _ in draft.new_groups.values():
            store.cache_group(group)
        for event in draft.written.values():
            store.cache_event(event)
    for room in result.rooms:
        store.cache_room(room)


async def _head(draft: RoomDraft) -> tuple[CachedRoom, Mapping[StateKey, tuple[EventId | None, EventId | None]]]:
    """The room after the draft's events, and the changed entries of its state: each with the event before and
    the event after."""
    view = draft.room.view
    current = await draft.current()
    changed: dict[StateKey, tuple[EventId | None, EventId | None]] = {}
    if draft.is_new or current.id != view.state_group:
        before: Mapping[StateKey, EventId] = {} if draft.is_new else (await draft.group(view.state_group)).state
        after_of = state_changes(before, current.state)
        await draft.load(event_id for event_id in after_of.values() if event_id is not None)
        changed = {key: (before.get(key), event_id) for key, event_id in after_of.items()}
    room = CachedRoom(
        replace(view, generation=view.generation + 1, forward_extremities=draft.extremities, state_group=current.id),
        await draft.joined_servers(),
        draft.room.merges | draft.new_merges if draft.new_merges else draft.room.merges,
        draft.room.edges,
    )
    return room, changed


def _room_row(room: CachedRoom) -> RoomRow:
    view = room.view
    return RoomRow(view.room_id, view.version.id, view.generation, list(view.forward_extremities), view.state_group)


def _group_row(room_id: str, group: StateGroup, kept: StoredState) -> StateGroupRow:
    return StateGroupRow(
        group.id,
        room_id,
        kept.parent,
        kept.distance,
        [key[0] for key in kept.entries],
        [key[1] for key in kept.entries],
        list(kept.entries.values()),
    )


def event_row(event: KnownEvent) -> EventRow:
    pdu = event.pdu
    return EventRow(
        pdu.event_id,
        pdu.room_id,
        pdu.type,
        pdu.state_key,
        pdu.sender,
        pdu.depth,
        clamp_timestamp(pdu.origin_server_ts),
        pdu.prev_events,
        pdu.auth_events,
        event.verdict,
        event.refusal,
        event.state_before,
        event.state_after,
        pdu.canonical,
    )


def _relations(event: KnownEvent) -> list[tuple[str, str, str]]:
    return [(target, rel_type, event.pdu.event_id) for rel_type, target in relations_of(event.pdu.content)]


def _state_row(room_id: str, key: StateKey, pdu: Pdu) -> CurrentStateRow:
    membership = pdu.membership if pdu.type == "m.room.member" else None
    if not isinstance(membership, str):
        return CurrentStateRow(room_id, *key, pdu.event_id, None, None)
    return CurrentStateRow(room_id, *key, pdu.event_id, membership, domain(key[1]) or "")


log = structlog.get_logger("palaver.rooms")


@dataclass(slots=True)
class WriteSession:
    """A transaction on locked rooms. Their drafts are committed together when the session's context ends."""

    connection: Connection
    drafts: dict[str, RoomDraft]
    origin: str | None
    _store: RoomStore
    _observer: HomeserverObserver | None

    def draft(self, room_id: str) -> RoomDraft:
        """The draft of a locked room. MatrixError 404 if the room does not exist."""
        draft = self.drafts.get(room_id)
        if draft is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        return draft

    async def new_room(self, room_id: str, version: RoomVersion) -> RoomDraft:
        """Add a room that this session creates. The session must have been opened with its id."""
        draft = await RoomDraft.of_new_room(self._store, self.connection, room_id, version, self._observer)
        self.drafts[room_id] = draft
        return draft


@dataclass(frozen=True, slots=True)
class RoomHead:
    """The head of a cached room. Nothing else in this process writes to the room; another process may."""

    connection: Connection
    draft: RoomDraft


class RoomWriter:
    """Writes rooms, one writer at a time per room, and publishes what was committed."""

    def __init__(
        self,
        database: Database,
        store: RoomStore,
        stream: RoomStream,
        queue: OutboxQueue,
        observer: HomeserverObserver | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._database = database
        self._store = store
        self._stream = stream
        self._queue = queue
        self._observer = observer
        self._now_ms = now_ms
        self._locks: KeyedLock[str] = KeyedLock()

    @contextlib.asynccontextmanager
    async def session(self, room_ids: Iterable[str], origin: str | None) -> AsyncIterator[WriteSession]:
        """Lock the rooms, and commit their drafts when the context ends.

        `origin` is the server that sent the events, None for local events. The session holds a database
        connection, so its block must not wait for another server.
        """
        # Locked in one order, here and in the database, so that two sessions cannot deadlock.
        wanted = sorted(set(room_ids))
        async with contextlib.AsyncExitStack() as stack:
            for room_id in wanted:
                await stack.enter_async_context(self._locks.hold(room_id))
            async with self._database.transaction() as connection:
                drafts = {}
                for row in await lock_rooms(connection, wanted):
                    room = await self._store.room_of(row, connection)
                    drafts[row.room_id] = RoomDraft(self._store, connection, room, self._observer)
                session = WriteSession(connection, drafts, origin, self._store, self._observer)
                yield session
                result = await write_drafts(connection, drafts.values(), origin)
                queued = await self._queue_events(connection, result.committed)
            self._publish(drafts.values(), result, result.stream_rows, queued)

    async def _queue_events(self, connection: Connection, committed: Sequence[CommittedEvent]) -> Sequence[QueuedPdu]:
        rooms = {event.pdu.event_id: event.pdu.room_id for event in committed}
        entries = [
            (destination, rooms[event_id], event_id) for destination, event_id in self._queue.queue_entries(committed)
        ]
        return await queue_pdus(connection, entries, self._now_ms())

    @contextlib.asynccontextmanager
    async def head(self, room_id: str) -> AsyncIterator[RoomHead | None]:
        """The head of a room, for messages that `append` writes without a transaction. None if the room is
        not cached."""
        async with self._locks.hold(room_id):
            room = self._store.cached_room(room_id)
            if room is None:
                yield None
                return
            async with self._database.autocommit() as connection:
                yield RoomHead(connection, RoomDraft(self._store, connection, room, self._observer))

    async def append(
        self,
        head: RoomHead,
        *,
        sent: Mapping[TransactionKey, EventId] | None = None,
        response: TransactionResponse | None = None,
    ) -> bool:
        """Write the draft with one statement.

        Local events are written with the transaction ids with which they were `sent`, events of another
        server with the `response` to its transaction.

        Returns False, without having written anything, if the draft holds more than messages, if another
        process has written to the room, or if one of the events exists already. The caller then opens a
        session, which handles each of these cases.
        """
        origin = None if response is None else response.origin
        made = await as_messages(head.draft, origin, self._queue, sent or {}, response)
        if made is None:
            return False
        messages, result = made
        appended = await append(head.connection, messages, self._now_ms())
        if appended is None:
            return False
        # The statement writes nothing if a redaction of one of the events exists already.
        self._publish([head.draft], result, appended.streamed, appended.queued, is_unredacted=True)
        return True

    def _publish(
        self,
        drafts: Iterable[RoomDraft],
        result: CommitResult,
        stream_rows: Sequence[StreamRow],
        queued: Sequence[QueuedPdu],
        *,
        is_unredacted: bool = False,
    ) -> None:
        """Called after the commit: cache the rooms, wake the readers of the stream, notify the outbox.
        `is_unredacted`: no redaction applies to any of the events.

        An exception is logged and not raised, since the events are committed. The next writer, the readers
        and the outbox find them in the database.
        """
        steps: list[Callable[[], None]] = [partial(update_caches, self._store, drafts, result)]
        if stream_rows:
            steps.append(partial(self._stream.wake, stream_rows, is_unredacted))
        if result.committed:
            steps.append(partial(self._queue.notify_queued, result.committed, queued))
        for step in steps:
            try:
                step()
            except Exception as error:
                log.error("Failed to publish committed events.", exc_info=error)
