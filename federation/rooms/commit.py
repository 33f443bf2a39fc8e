"""Writes events to rooms: one writer for each room, in this process and among all processes on the database.

`append` writes messages at the head of a room by one statement, `session` is the general transaction. Both
end in `_publish`.

Writes what a transaction has made of its rooms: some statements for all of them together.
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
from federation.rooms.ports import Committed
from federation.rooms.receive_checks import KnownEvent
from federation.rooms.store import RoomMemory, RoomStore
from federation.rooms.stream import RoomStream
from federation.state_resolution.state_groups import Kept, StateGroup, changes
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


class OwnQueue(Protocol):
    """`federation.outbox.outbox.Outbox`, which stands above rooms: gets what this server sends to others."""

    def to_queue(self, committed: Sequence[Committed]) -> list[tuple[str, EventId]]:
        """Servers and the events that they are to get, in the order of the events."""
        ...

    def queued(self, committed: Sequence[Committed], places: Sequence[QueuedPdu]) -> None:
        """They are committed, and these are their positions in the queues."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be remembered once the transaction has been committed."""

    memories: Sequence[RoomMemory]
    committed: Sequence[Committed]
    told: Sequence[StreamRow]
    """What readers of the stream have to read."""


async def write_drafts(connection: Connection, drafts: Iterable[RoomDraft], origin: str | None) -> Outcome:
    groups: list[StateGroupRow] = []
    events: list[EventRow] = []
    updated: list[RoomRow] = []
    entries: list[CurrentStateRow] = []
    removed: list[tuple[str, str, str]] = []
    told: list[tuple[str, str, Kind]] = []
    redactions: list[tuple[str, str]] = []
    relations: list[tuple[str, str, str]] = []
    memories: list[RoomMemory] = []
    committed: list[Committed] = []
    for draft in drafts:
        if not draft.written:
            continue
        memory, changed = await _head(draft)
        memories.append(memory)
        row = _room_row(memory)
        if draft.is_new:
            if not await insert_room(connection, row):
                # Another process was quicker: a lock on a row that is not there yet keeps nobody out.
                raise MatrixError("M_ROOM_IN_USE", "There is such a room already.", 409)
        else:
            updated.append(row)
        groups += [_group_row(draft.room_id, *group) for group in draft.new_groups.values()]
        events += map(event_row, draft.written.values())
        news = [event.pdu.event_id for event in draft.timeline]
        told += [(draft.room_id, event_id, "timeline") for event_id in news]
        for key, (before, after) in changed.items():
            if after is None:
                removed.append((draft.room_id, *key))
                assert before is not None, "what is taken out was there"
                told.append((draft.room_id, before, "unset"))
                continue
            entries.append(_state_row(draft.room_id, key, draft.pdus[after]))
            if after not in news and not draft.is_new:
                told.append((draft.room_id, after, "state"))
        for event in draft.written.values():
            if event.verdict != "accepted" or event.is_outlier:
                continue
            target = event.pdu.redacts(draft.version)
            if target is not None:
                redactions.append((target, event.pdu.event_id))
            relations += _relations(event)
        for event in draft.timeline:
            sent_to = draft.destinations.get(event.pdu.event_id, frozenset())
            committed.append(Committed(event.pdu, draft.version, origin, sent_to))
        for event_id, servers in draft.missed.items():
            committed.append(Committed(draft.pdus[event_id], draft.version, None, servers))
    await insert_state_groups(connection, groups)
    await write_events(connection, events)
    await write_current_state(connection, entries, removed)
    await update_rooms(connection, updated)
    await insert_redactions(connection, redactions)
    await insert_relations(connection, relations)
    positions = await room_stream.append(connection, told)
    rows = [StreamRow(position, *entry) for position, entry in zip(positions, told, strict=True)]
    return Outcome(memories, committed, rows)


async def messages_of(
    draft: RoomDraft,
    origin: str | None,
    queue: OwnQueue,
    sent: Mapping[TransactionKey, EventId],
    answered: TransactionResponse | None,
) -> tuple[MessageBatch, Outcome] | None:
    """What has been placed in a room, as one statement writes it. None when more has come of it than that."""
    events = list(draft.written.values())
    memory, changed = await _head(draft)
    if (
        draft.new_groups
        or changed
        or memory.view.state_group != draft.memory.view.state_group
        or [event.pdu.event_id for event in draft.timeline] != list(draft.written)
        or any(event.pdu.redacts(draft.version) is not None for event in events)
    ):
        return None
    committed = [
        Committed(event.pdu, draft.version, origin, draft.destinations.get(event.pdu.event_id, frozenset()))
        for event in events
    ]
    messages = MessageBatch(
        draft.room_id,
        draft.memory.view.generation,
        memory.view.forward_extremities,
        [event_row(event) for event in events],
        [relation for event in events for relation in _relations(event)],
        sent,
        queue.to_queue(committed),
        answered,
    )
    return messages, Outcome([memory], committed, ())


def remember(store: RoomStore, drafts: Iterable[RoomDraft], outcome: Outcome) -> None:
    """After the commit, and not before: what was rolled back must not be known."""
    for draft in drafts:
        for group, _ in draft.new_groups.values():
            store.remember_group(group)
        for event in draft.written.values():
            store.remember_event(event)
    for memory in outcome.memories:
        store.remember_room(memory)


async def _head(
    draft: RoomDraft,
) -> tuple[RoomMemory, Mapping[StateKey, tuple[EventId | None, EventId | None]]]:
    """Where the room stands now, and which entries of its state went from what to what."""
    view = draft.memory.view
    current = await draft.current()
    changed: dict[StateKey, tuple[EventId | None, EventId | None]] = {}
    if draft.is_new or current.id != view.state_group:
        before: Mapping[StateKey, EventId] = (
            {} if draft.is_new else (await draft.group(view.state_group)).state
        )
        after_of = changes(before, current.state)
        await draft.load(event_id for event_id in after_of.values() if event_id is not None)
        changed = {key: (before.get(key), event_id) for key, event_id in after_of.items()}
    memory = RoomMemory(
        replace(
            view,
            generation=view.generation + 1,
            forward_extremities=draft.extremities,
            state_group=current.id,
        ),
        await draft.joined(),
        draft.memory.merges | draft.new_merges if draft.new_merges else draft.memory.merges,
        draft.memory.edges,
    )
    return memory, changed


def _room_row(memory: RoomMemory) -> RoomRow:
    view = memory.view
    return RoomRow(
        view.room_id, view.version.id, view.generation, list(view.forward_extremities), view.state_group
    )


def _group_row(room_id: str, group: StateGroup, kept: Kept) -> StateGroupRow:
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
class Session:
    """Rooms that nothing else writes to until the context ends, when all is committed together."""

    connection: Connection
    drafts: dict[str, RoomDraft]
    origin: str | None
    _store: RoomStore
    _observer: HomeserverObserver | None

    def room(self, room_id: str) -> RoomDraft:
        draft = self.drafts.get(room_id)
        if draft is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        return draft

    async def new_room(self, room_id: str, version: RoomVersion) -> RoomDraft:
        """A room that is made in this session, which has to hold its id."""
        draft = await RoomDraft.of_new_room(self._store, self.connection, room_id, version, self._observer)
        self.drafts[room_id] = draft
        return draft


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a room as this process remembers it. Nothing else in this process writes to the room."""

    connection: Connection
    draft: RoomDraft


class RoomWriting:
    def __init__(
        self,
        database: Database,
        store: RoomStore,
        stream: RoomStream,
        queue: OwnQueue,
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
    async def session(self, room_ids: Iterable[str], origin: str | None) -> AsyncIterator[Session]:
        """`origin` is the server that gave us the events, None for ours. Nothing in it may wait for another
        server: it holds a connection of the database."""
        # In one order, here and in the database, so that no two who need the same rooms wait for each other.
        wanted = sorted(set(room_ids))
        async with contextlib.AsyncExitStack() as stack:
            for room_id in wanted:
                await stack.enter_async_context(self._locks.hold(room_id))
            async with self._database.transaction() as connection:
                drafts = {}
                for row in await lock_rooms(connection, wanted):
                    memory = await self._store.room_of(row, connection)
                    drafts[row.room_id] = RoomDraft(self._store, connection, memory, self._observer)
                session = Session(connection, drafts, origin, self._store, self._observer)
                yield session
                outcome = await write_drafts(connection, drafts.values(), origin)
                queued = await self._queue_events(connection, outcome.committed)
            self._publish(drafts.values(), outcome, outcome.told, queued)

    async def _queue_events(
        self, connection: Connection, committed: Sequence[Committed]
    ) -> Sequence[QueuedPdu]:
        rooms = {event.pdu.event_id: event.pdu.room_id for event in committed}
        entries = [
            (destination, rooms[event_id], event_id)
            for destination, event_id in self._queue.to_queue(committed)
        ]
        return await queue_pdus(connection, entries, self._now_ms())

    @contextlib.asynccontextmanager
    async def head(self, room_id: str) -> AsyncIterator[Head | None]:
        """Messages are placed in its draft and then written by `append`, without a transaction. None: this
        process does not remember the room."""
        async with self._locks.hold(room_id):
            memory = self._store.remembered_room(room_id)
            if memory is None:
                yield None
                return
            async with self._database.autocommit() as connection:
                yield Head(connection, RoomDraft(self._store, connection, memory, self._observer))

    async def append(
        self,
        head: Head,
        *,
        sent: Mapping[TransactionKey, EventId] | None = None,
        answered: TransactionResponse | None = None,
    ) -> bool:
        """Write the draft by one statement: events of ours with the transaction ids that they were `sent`
        with, or those of another server with what its transaction is `answered`. False: nothing was written,
        since more has come of them than messages, another process has written to the room, or one of them has
        come before; a session shows which."""
        origin = None if answered is None else answered.origin
        made = await messages_of(head.draft, origin, self._queue, sent or {}, answered)
        if made is None:
            return False
        messages, outcome = made
        appended = await append(head.connection, messages, self._now_ms())
        if appended is None:
            return False
        # No redaction can have come before an event that one statement has written.
        self._publish([head.draft], outcome, appended.streamed, appended.queued, is_whole=True)
        return True

    def _publish(
        self,
        drafts: Iterable[RoomDraft],
        outcome: Outcome,
        told: Sequence[StreamRow],
        queued: Sequence[QueuedPdu],
        *,
        is_whole: bool = False,
    ) -> None:
        """After the commit: remember the rooms, wake the readers of the stream, wake the outbox. `is_whole`:
        it is known that no redaction asks for any of the events.

        What fails here is logged and not raised. The events are committed; the next writer, the readers and
        the outbox find them in the database.
        """
        steps: list[Callable[[], None]] = [partial(remember, self._store, drafts, outcome)]
        if told:
            steps.append(partial(self._stream.wake, told, is_whole))
        if outcome.committed:
            steps.append(partial(self._queue.queued, outcome.committed, queued))
        for step in steps:
            try:
                step()
            except Exception as error:
                log.error("Committed events could not be announced.", exc_info=error)
